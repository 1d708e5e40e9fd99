// A file in memory, mapped twice.
// calls: memfd_create mmap ftruncate
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = RAW(memfd_create, "name", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    char *a = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *b = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(a != MAP_FAILED && b != MAP_FAILED);
    strcpy(a, "through one, seen in the other");
    GUEST_POINT();
    SAY("%s", b);
    char c[12] = {0};
    CHECK(pread(fd, c, 11, 0) == 11);
    SAY("%s", c);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    FAILS(EPERM, ftruncate(fd, 0));
    SUCCESS();
}
