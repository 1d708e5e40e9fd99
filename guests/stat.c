// Attributes of files.
// calls: stat lstat fstat newfstatat statx
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "12345");
    CHECK(symlink("f", "l") == 0 && chmod("f", 0604) == 0);
    struct stat s;
    CHECK(RAW(stat, "l", &s) == 0);
    SAY("stat %o %ld links %ld", s.st_mode, (long)s.st_size, (long)s.st_nlink);
    CHECK(RAW(lstat, "l", &s) == 0 && S_ISLNK(s.st_mode));
    SAY("lstat %o %ld", s.st_mode, (long)s.st_size);
    int fd = open("f", O_RDONLY);
    struct stat t;
    CHECK(RAW(fstat, fd, &s) == 0 && RAW(newfstatat, fd, "", &t, AT_EMPTY_PATH) == 0);
    GUEST_POINT();
    CHECK(s.st_ino == t.st_ino && s.st_dev == t.st_dev && s.st_uid == geteuid());
    CHECK(RAW(newfstatat, AT_FDCWD, "l", &t, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(t.st_mode) && t.st_ino != s.st_ino);
    struct statx x;
    CHECK(RAW(statx, AT_FDCWD, "f", 0, STATX_BASIC_STATS, &x) == 0);
    CHECK(x.stx_ino == s.st_ino && x.stx_mtime.tv_sec == s.st_mtim.tv_sec && x.stx_mtime.tv_nsec == s.st_mtim.tv_nsec);
    SAY("statx %o %ld", x.stx_mode, (long)x.stx_size);
    FAILS(ENOENT, RAW(stat, "none", &s));
    FAILS(ENOTDIR, RAW(stat, "f/", &s));
    FAILS(ENOENT, RAW(newfstatat, fd, "", &t, 0));
    SUCCESS();
}
