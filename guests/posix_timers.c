// POSIX timers.
// calls: timer_create timer_settime timer_gettime timer_getoverrun timer_delete
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGRTMIN + 3);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3, .sigev_value = {.sival_int = 99}};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &e, &timer) == 0);
    struct itimerspec t = {.it_value = {0, 1000000}, .it_interval = {0, 1000000}}, left;
    CHECK(timer_settime(timer, 0, &t, NULL) == 0);
    GUEST_POINT();
    struct timespec nap = {0, 20000000};
    CHECK(nanosleep(&nap, NULL) == 0);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3);
    SAY("value %d, overruns %s", info.si_value.sival_int, timer_getoverrun(timer) > 5 ? "many" : "few");
    CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 1000000);
    CHECK(timer_delete(timer) == 0);
    FAILS(EINVAL, RAW(timer_gettime, 12345, &left));
    SUCCESS();
}
