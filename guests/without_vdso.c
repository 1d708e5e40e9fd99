// The vDSO's code unmapped, its data not, as valgrind does.
// calls: munmap
#include "guest.h"

static int kernels(const char *name, unsigned long *start, unsigned long *end) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, name)) found = sscanf(line, "%lx-%lx", start, end);
    fclose(maps);
    return found == 2;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    unsigned long start, end;
    struct timespec now, moment = {0, 1000000};
    if (kernels("[vdso]", &start, &end)) CHECK(munmap((void *)start, end - start) == 0);
    // By the call itself: what libc found at the start is not there.
    CHECK(RAW(clock_gettime, CLOCK_MONOTONIC, &now) == 0);
    GUEST_POINT();
    CHECK(RAW(clock_gettime, CLOCK_MONOTONIC, &now) == 0 && RAW(nanosleep, &moment, NULL) == 0);
    SAY("code: %d, data: %d", kernels("[vdso]", &start, &end), kernels("[vvar]", &start, &end));
    SUCCESS();
}
