// Interval timers: real, of the process, of its system calls.
// calls: alarm setitimer getitimer
#include "guest.h"

static volatile int seen;

static void count(int signal) {
    (void)signal;
    seen++;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct itimerval t = {.it_value = {1000, 500}, .it_interval = {7, 0}}, old;
    CHECK(RAW(setitimer, ITIMER_REAL, &t, NULL) == 0 && RAW(getitimer, ITIMER_REAL, &old) == 0);
    GUEST_POINT();
    SAY("interval %ld, left %s", old.it_interval.tv_sec, old.it_value.tv_sec > 900 ? "about 1000" : "too few");
    unsigned left = RAW(alarm, 0);
    SAY("alarm had %s", left > 900 && left <= 1001 ? "about 1000" : "something else");
    struct sigaction a = {.sa_handler = count};
    CHECK(sigaction(SIGALRM, &a, NULL) == 0 && sigaction(SIGVTALRM, &a, NULL) == 0 && sigaction(SIGPROF, &a, NULL) == 0);
    struct itimerval fast = {.it_value = {0, 5000}, .it_interval = {0, 5000}}, none = {0};
    for (int which = 0; which < 3; which++) {
        seen = 0;
        CHECK(setitimer(which, &fast, NULL) == 0);
        while (seen < 3) continue;
        CHECK(setitimer(which, &none, NULL) == 0);
        SAY("timer %d ran three times", which);
    }
    SUCCESS();
}
