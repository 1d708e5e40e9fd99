// Scattered reads and writes.
// calls: readv writev preadv pwritev preadv2 pwritev2
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    struct iovec out[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}};
    CHECK(writev(fd, out, 3) == 6 && pwritev(fd, out, 3, 10) == 6 && pwritev2(fd, out, 3, 20, RWF_DSYNC) == 6);
    GUEST_POINT();
    char a[4] = {0}, b[5] = {0};
    struct iovec in[2] = {{a, 3}, {b, 3}};
    CHECK(preadv(fd, in, 2, 0) == 6);
    SAY("%s %s", a, b);
    CHECK(preadv2(fd, in, 2, 10, 0) == 6);
    SAY("%s %s", a, b);
    CHECK(lseek(fd, 20, SEEK_SET) == 20 && readv(fd, in, 2) == 6);
    SAY("%s %s", a, b);
    FAILS(EINVAL, RAW(readv, fd, in, IOV_MAX + 1));
    SUCCESS();
}
