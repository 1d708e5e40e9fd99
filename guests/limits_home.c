// Limits that a program sets wherever it is hold when it comes home.
// calls: setrlimit prlimit64 mmap
#include "guest.h"

static rlim_t wanted(int i, const struct rlimit *now) {
    rlim_t wanted = 40000 + 4096 * i;
    return wanted < now->rlim_max ? wanted : now->rlim_max;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    static const int which[] = {RLIMIT_CORE, RLIMIT_FSIZE, RLIMIT_STACK, RLIMIT_NOFILE, RLIMIT_MEMLOCK};
    enum { MANY = sizeof which / sizeof *which };
    struct rlimit set = {.rlim_max = 0}, found;
    GUEST_POINT();
    for (int i = 0; i < MANY; i++) {
        CHECK(getrlimit(which[i], &set) == 0);
        set.rlim_cur = wanted(i, &set);
        CHECK(i % 2 ? RAW(setrlimit, which[i], &set) == 0 : RAW(prlimit64, 0, which[i], &set, NULL) == 0);
    }
    // It goes home for this.
    put_file("f", "0123456789");
    int fd = open("f", O_RDWR);
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED);
    for (int i = 0; i < MANY; i++) {
        CHECK(getrlimit(which[i], &found) == 0);
        SAY("%d: %d", i, found.rlim_cur == wanted(i, &found));
    }
    SUCCESS();
}
