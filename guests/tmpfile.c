// A file without a name gets one.
// calls: openat linkat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0 && write(fd, "no name", 7) == 7);
    struct stat s;
    CHECK(fstat(fd, &s) == 0);
    SAY("links %ld", (long)s.st_nlink);
    GUEST_POINT();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    SAY("%s", get_file("named"));
    SUCCESS();
}
