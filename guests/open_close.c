// Opening, creating and closing files.
// calls: open openat creat close
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = RAW(open, "a", O_CREAT | O_EXCL | O_RDWR, 0640);
    CHECK(fd >= 0);
    GUEST_POINT();
    CHECK(RAW(write, fd, "one", 3) == 3);
    CHECK(RAW(close, fd) == 0);
    FAILS(EBADF, RAW(close, fd));
    FAILS(EEXIST, RAW(open, "a", O_CREAT | O_EXCL | O_RDWR, 0640));
    FAILS(ENOENT, RAW(open, "b", O_RDONLY, 0));
    FAILS(ENOTDIR, RAW(open, "a/b", O_RDONLY, 0));
    FAILS(EISDIR, RAW(open, ".", O_WRONLY, 0));
    FAILS(ENOTDIR, RAW(openat, AT_FDCWD, "a", O_DIRECTORY, 0));
    SAY("a: %s", get_file("a"));
    fd = RAW(creat, "a", 0600);
    CHECK(fd >= 0 && RAW(close, fd) == 0);
    SAY("a after creat: '%s'", get_file("a"));
    int dir = RAW(openat, AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    CHECK(dir >= 0);
    fd = RAW(openat, dir, "c", O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && write(fd, "cc", 2) == 2);
    SAY("c: %s", get_file("c"));
    SUCCESS();
}
