// Sleeping, interrupted too.
// calls: nanosleep clock_nanosleep
#include "guest.h"

static void on(int signal) {
    (void)signal;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int64_t start = now_us(CLOCK_MONOTONIC);
    struct timespec t = {0, 30000000}, left = {9, 9};
    CHECK(RAW(nanosleep, &t, &left) == 0);
    GUEST_POINT();
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL) == 0);
    struct timespec at;
    CHECK(clock_gettime(CLOCK_REALTIME, &at) == 0);
    at.tv_nsec += 20000000;
    if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL) == 0);
    int64_t took = now_us(CLOCK_MONOTONIC) - start;
    SAY("slept long enough: %s", took >= 80000 ? "yes" : "no");
    t.tv_nsec = 2000000000;
    FAILS(EINVAL, RAW(nanosleep, &t, NULL));
    signal(SIGALRM, on);
    struct itimerval soon = {.it_value = {0, 10000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    struct timespec lasting = {100, 0};
    FAILS(EINTR, RAW(nanosleep, &lasting, &left));
    SAY("left: %s", left.tv_sec == 99 ? "99 s and something" : "wrong");
    SUCCESS();
}
