// Random bytes.
// calls: getrandom
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char a[256] = {0}, b[256] = {0};
    CHECK(RAW(getrandom, a, 256, 0) == 256);
    GUEST_POINT();
    CHECK(RAW(getrandom, b, 256, 1) == 256 && memcmp(a, b, 256));
    SAY("different");
    FAILS(EINVAL, RAW(getrandom, a, 1, 99));
    SUCCESS();
}
