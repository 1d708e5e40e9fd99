// Space reserved and given back.
// calls: fallocate
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    struct stat s;
    CHECK(RAW(fallocate, fd, 0, 0, 10000) == 0 && fstat(fd, &s) == 0);
    SAY("size %ld, blocks %s", (long)s.st_size, s.st_blocks ? "yes" : "no");
    CHECK(RAW(fallocate, fd, FALLOC_FL_KEEP_SIZE, 0, 100000) == 0 && fstat(fd, &s) == 0);
    SAY("size %ld", (long)s.st_size);
    CHECK(pwrite(fd, "abc", 3, 4096) == 3);
    GUEST_POINT();
    CHECK(RAW(fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0);
    char b[3];
    CHECK(pread(fd, b, 3, 4096) == 3 && !memcmp(b, "\0\0\0", 3));
    FAILS(EINVAL, RAW(fallocate, fd, 0, -1L, 5L));
    SUCCESS();
}
