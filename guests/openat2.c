// Paths that must stay below a directory.
// calls: openat2
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct { uint64_t flags, mode, resolve; } how = {O_RDONLY, 0, 0x08};
    CHECK(mkdir("d", 0700) == 0);
    put_file("d/f", "inside");
    put_file("g", "outside");
    CHECK(symlink("../g", "d/out") == 0);
    int dir = open("d", O_RDONLY | O_DIRECTORY);
    int fd = RAW(openat2, dir, "f", &how, sizeof how);
    CHECK(fd >= 0);
    GUEST_POINT();
    char b[16] = {0};
    CHECK(read(fd, b, 15) == 6);
    SAY("%s", b);
    FAILS(EXDEV, RAW(openat2, dir, "../g", &how, sizeof how));
    FAILS(EXDEV, RAW(openat2, dir, "out", &how, sizeof how));
    FAILS(EINVAL, RAW(openat2, dir, "f", &how, 1));
    SUCCESS();
}
