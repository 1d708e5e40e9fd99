// Owners.
// calls: chown fchown lchown fchownat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "x");
    CHECK(symlink("f", "l") == 0 && chmod("f", 06755) == 0);
    uid_t u = geteuid();
    gid_t g = getegid();
    CHECK(RAW(chown, "f", u, g) == 0 && RAW(lchown, "l", u, -1) == 0);
    int fd = open("f", O_RDONLY);
    CHECK(RAW(fchown, fd, -1, g) == 0 && RAW(fchownat, AT_FDCWD, "l", u, g, AT_SYMLINK_NOFOLLOW) == 0);
    GUEST_POINT();
    struct stat s;
    CHECK(stat("f", &s) == 0 && s.st_uid == u && s.st_gid == g);
    if (u == 0) {
        CHECK(chown("f", 12345, 54321) == 0 && stat("f", &s) == 0 && s.st_uid == 12345 && s.st_gid == 54321);
        // Ids that few machines use, and any may.
        CHECK(lchown("l", 3000000000u, 0x80000000u) == 0 && lstat("l", &s) == 0);
        CHECK(s.st_uid == 3000000000u && s.st_gid == 0x80000000u);
        CHECK(fchown(fd, 0x80000000u, -1) == 0 && fstat(fd, &s) == 0 && s.st_uid == 0x80000000u && s.st_gid == 54321);
        CHECK(fchownat(AT_FDCWD, "f", -1, 0xfffffffeu, 0) == 0 && stat("f", &s) == 0 && s.st_gid == 0xfffffffeu);
    } else
        CHECK(chown("f", u + 1, -1) == -1 && errno == EPERM);
    CHECK(stat("f", &s) == 0);
    SAY("set-user and set-group bits are gone: %o", s.st_mode);
    SUCCESS();
}
