// Descriptors that are only places.
// calls: openat newfstatat readlinkat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "x");
    CHECK(symlink("f", "l") == 0);
    int fd = open("l", O_PATH | O_NOFOLLOW);
    struct stat s;
    CHECK(fd >= 0 && fstat(fd, &s) == 0 && S_ISLNK(s.st_mode));
    GUEST_POINT();
    char to[8] = {0};
    CHECK(readlinkat(fd, "", to, 8) == 1);
    SAY("l -> %s", to);
    int p = open("f", O_PATH);
    char b[1];
    FAILS(EBADF, read(p, b, 1));
    FAILS(EBADF, fchmod(p, 0600));
    SUCCESS();
}
