// Clocks agree with each other.
// calls: clock_gettime clock_getres gettimeofday time times getrusage adjtimex
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int64_t mono = now_us(CLOCK_MONOTONIC), boot = now_us(CLOCK_BOOTTIME), real = now_us(CLOCK_REALTIME);
    GUEST_POINT();
    CHECK(mono > 0 && boot >= mono && now_us(CLOCK_MONOTONIC) >= mono);
    struct timeval tv;
    time_t t = RAW(time, NULL);
    CHECK(gettimeofday(&tv, NULL) == 0 && llabs(tv.tv_sec * 1000000LL + tv.tv_usec - real) < 100000000 && llabs(t - tv.tv_sec) < 100);
    struct timespec r, raw;
    CHECK(RAW(clock_getres, CLOCK_MONOTONIC, &r) == 0);
    SAY("resolution %ld ns", r.tv_nsec);
    // The call and the page that answers without one must agree.
    CHECK(RAW(clock_gettime, CLOCK_MONOTONIC, &raw) == 0);
    int64_t after = now_us(CLOCK_MONOTONIC);
    CHECK(after - (raw.tv_sec * 1000000LL + raw.tv_nsec / 1000) < 60000000 && raw.tv_sec * 1000000LL + raw.tv_nsec / 1000 >= mono);
    int64_t start = now_us(CLOCK_PROCESS_CPUTIME_ID);
    while (now_us(CLOCK_PROCESS_CPUTIME_ID) < start + 30000) continue;
    struct rusage u;
    struct tms tms;
    CHECK(getrusage(RUSAGE_SELF, &u) == 0 && times(&tms) != -1);
    // User and system apart are guessed from ticks; their sum is exact.
    int64_t used = (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000LL + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
    SAY("CPU time: %s", used >= 30000 ? "some" : "none");
    char timex[208] = {0};
    SAY("adjtimex: %s", RAW(adjtimex, timex) >= 0 ? "a state" : "refused");
    FAILS(EINVAL, RAW(clock_gettime, 77, &raw));
    SUCCESS();
}
