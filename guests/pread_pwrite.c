// Reading and writing at positions.
// calls: pread64 pwrite64
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    CHECK(RAW(pwrite64, fd, "world", 5, 6) == 5 && RAW(pwrite64, fd, "hello ", 6, 0) == 6);
    GUEST_POINT();
    char b[16] = {0};
    CHECK(RAW(pread64, fd, b, 5, 6) == 5);
    SAY("%s, position %ld", b, (long)lseek(fd, 0, SEEK_CUR));
    CHECK(RAW(pread64, fd, b, 5, 11) == 0);
    FAILS(EINVAL, RAW(pread64, fd, b, 5, -1L));
    int p[2];
    CHECK(pipe(p) == 0);
    FAILS(ESPIPE, RAW(pread64, p[0], b, 1, 0));
    SUCCESS();
}
