// FIFOs by name.
// calls: mknod mknodat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(RAW(mknod, "p", S_IFIFO | 0600, 0) == 0 && RAW(mknodat, AT_FDCWD, "q", S_IFIFO | 0600, 0) == 0);
    CHECK(RAW(mknod, "f", S_IFREG | 0600, 0) == 0);
    struct stat s;
    CHECK(stat("p", &s) == 0 && S_ISFIFO(s.st_mode));
    SAY("mode %o", s.st_mode);
    FAILS(EEXIST, RAW(mknod, "p", S_IFIFO | 0600, 0));
    CHECK(unlink("p") == 0 && unlink("q") == 0);
    SUCCESS();
}
