// Memory held in place.
// calls: mlock mlock2 munlock mlockall munlockall
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char *m = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(RAW(mlock, m, 4096) == 0 && RAW(mlock2, m + 4096, 4096, 1) == 0);
    GUEST_POINT();
    m[0] = m[4096] = 1;
    CHECK(RAW(munlock, m, 8192) == 0 && RAW(munlockall) == 0);
    FAILS(EINVAL, RAW(mlockall, 64));
    FAILS(ENOMEM, RAW(mlock, (void *)4096, 4096));
    SUCCESS();
}
