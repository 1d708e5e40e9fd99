// A file with a hole of 5 GiB.
// calls: lseek pwrite64
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    CHECK(pwrite(fd, "far", 3, 5LL << 30) == 3);
    struct stat s;
    CHECK(fstat(fd, &s) == 0);
    SAY("size %lld", (long long)s.st_size);
    GUEST_POINT();
    off_t data = lseek(fd, 0, SEEK_DATA), hole = lseek(fd, 0, SEEK_HOLE);
    SAY("data is far: %s, hole at %ld", data > 1 << 30 || data == 0 ? "yes" : "no", (long)hole);
    char b[4] = {0};
    CHECK(pread(fd, b, 3, 5LL << 30) == 3);
    SAY("%s", b);
    FAILS(ENXIO, lseek(fd, 6LL << 30, SEEK_DATA));
    SUCCESS();
}
