// Directories made and removed.
// calls: mkdir mkdirat rmdir
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    umask(022);
    CHECK(RAW(mkdir, "d", 0777) == 0 && RAW(mkdirat, AT_FDCWD, "d/e", 0700) == 0);
    FAILS(EEXIST, RAW(mkdir, "d", 0777));
    FAILS(ENOENT, RAW(mkdir, "x/y", 0777));
    FAILS(ENOTEMPTY, RAW(rmdir, "d"));
    struct stat s;
    CHECK(stat("d", &s) == 0);
    SAY("d %o links %ld", s.st_mode, (long)s.st_nlink);
    GUEST_POINT();
    CHECK(RAW(rmdir, "d/e") == 0 && RAW(rmdir, "d") == 0);
    FAILS(ENOENT, RAW(rmdir, "d"));
    FAILS(EINVAL, RAW(rmdir, "."));
    SUCCESS();
}
