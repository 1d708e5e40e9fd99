// Numbers of file systems.
// calls: statfs fstatfs
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct statfs a, b;
    CHECK(RAW(statfs, ".", &a) == 0);
    int fd = open(".", O_RDONLY);
    GUEST_POINT();
    CHECK(RAW(fstatfs, fd, &b) == 0);
    CHECK(a.f_type == b.f_type && a.f_blocks == b.f_blocks && a.f_bsize > 0 && a.f_bavail <= a.f_blocks);
    SAY("longest name %ld", (long)a.f_namelen);
    FAILS(ENOENT, RAW(statfs, "none", &a));
    SUCCESS();
}
