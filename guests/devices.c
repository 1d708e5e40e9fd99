// Devices that every machine has.
// calls: openat read write
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char b[64];
    int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), full = open("/dev/full", O_WRONLY), random = open("/dev/urandom", O_RDONLY);
    CHECK(null >= 0 && zero >= 0 && full >= 0 && random >= 0);
    CHECK(read(null, b, 64) == 0 && write(null, b, 64) == 64);
    memset(b, 1, 64);
    GUEST_POINT();
    CHECK(read(zero, b, 64) == 64 && b[0] == 0 && !memcmp(b, b + 1, 63));
    CHECK(read(random, b, 64) == 64 && memcmp(b, b + 1, 63));
    FAILS(ENOSPC, write(full, b, 1));
    struct stat s;
    CHECK(fstat(null, &s) == 0 && S_ISCHR(s.st_mode));
    SAY("null is %lx", (long)s.st_rdev);
    SUCCESS();
}
