// Reading, writing and positions.
// calls: read write lseek
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    CHECK(RAW(write, fd, "0123456789", 10) == 10);
    CHECK(RAW(lseek, fd, 4, SEEK_SET) == 4);
    GUEST_POINT();
    char b[16] = {0};
    CHECK(RAW(read, fd, b, 3) == 3);
    SAY("read %s", b);
    CHECK(RAW(lseek, fd, -2L, SEEK_END) == 8);
    CHECK(RAW(read, fd, b, sizeof b) == 2);
    SAY("read %.2s", b);
    CHECK(RAW(read, fd, b, sizeof b) == 0);
    CHECK(RAW(lseek, fd, 20, SEEK_CUR) == 30);
    CHECK(RAW(write, fd, "x", 1) == 1);
    CHECK(RAW(lseek, fd, 10, SEEK_SET) == 10 && RAW(read, fd, b, 4) == 4 && !memcmp(b, "\0\0\0\0", 4));
    FAILS(EINVAL, RAW(lseek, fd, -1L, SEEK_SET));
    FAILS(EFAULT, RAW(read, fd, (void *)8, 4));
    FAILS(EBADF, RAW(read, 999, b, 1));
    close(fd);
    fd = open("f", O_RDONLY);
    FAILS(EBADF, RAW(write, fd, "x", 1));
    SUCCESS();
}
