// Names changed, replaced and exchanged.
// calls: rename renameat renameat2
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("a", "A");
    put_file("b", "B");
    CHECK(mkdir("d", 0700) == 0 && RAW(rename, "a", "d/a") == 0);
    FAILS(ENOENT, RAW(rename, "a", "x"));
    CHECK(RAW(renameat, AT_FDCWD, "d/a", AT_FDCWD, "a") == 0);
    FAILS(EEXIST, RAW(renameat2, AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE));
    GUEST_POINT();
    CHECK(RAW(renameat2, AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) == 0);
    SAY("a is %s", get_file("a"));
    CHECK(RAW(rename, "a", "b") == 0);
    SAY("b is %s", get_file("b"));
    FAILS(ENOENT, access("a", F_OK));
    FAILS(EINVAL, RAW(rename, "d", "d/e"));
    FAILS(EISDIR, RAW(rename, "b", "d"));
    SUCCESS();
}
