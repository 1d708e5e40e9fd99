// Checks of permission.
// calls: access faccessat faccessat2
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "x");
    CHECK(RAW(access, "f", F_OK) == 0 && RAW(access, "f", R_OK | W_OK) == 0);
    FAILS(EACCES, RAW(access, "f", X_OK));
    FAILS(ENOENT, RAW(access, "g", F_OK));
    GUEST_POINT();
    CHECK(chmod("f", 0755) == 0 && RAW(faccessat, AT_FDCWD, "f", X_OK) == 0);
    CHECK(RAW(faccessat2, AT_FDCWD, "f", X_OK, AT_EACCESS) == 0);
    FAILS(EINVAL, RAW(access, "f", 8));
    SUCCESS();
}
