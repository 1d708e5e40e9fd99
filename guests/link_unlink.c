// Several names of a file.
// calls: link linkat unlink unlinkat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("a", "x");
    CHECK(RAW(link, "a", "b") == 0 && RAW(linkat, AT_FDCWD, "b", AT_FDCWD, "c", 0) == 0);
    struct stat s, t;
    CHECK(stat("a", &s) == 0 && stat("c", &t) == 0 && s.st_ino == t.st_ino);
    SAY("links %ld", (long)t.st_nlink);
    GUEST_POINT();
    CHECK(RAW(unlink, "a") == 0 && stat("c", &t) == 0);
    SAY("links %ld", (long)t.st_nlink);
    FAILS(ENOENT, RAW(unlink, "a"));
    FAILS(EEXIST, RAW(link, "b", "c"));
    CHECK(mkdir("d", 0700) == 0);
    FAILS(EISDIR, RAW(unlink, "d"));
    FAILS(EPERM, RAW(link, "d", "e"));
    CHECK(RAW(unlinkat, AT_FDCWD, "d", AT_REMOVEDIR) == 0 && RAW(unlinkat, AT_FDCWD, "b", 0) == 0);
    SAY("c is %s", get_file("c"));
    SUCCESS();
}
