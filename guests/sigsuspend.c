// Waiting for signals.
// calls: rt_sigsuspend pause alarm
#include "guest.h"

static volatile int seen;

static void count(int signal) {
    (void)signal;
    seen++;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_handler = count};
    CHECK(sigaction(SIGALRM, &a, NULL) == 0 && sigaction(SIGUSR1, &a, NULL) == 0);
    sigset_t set, none;
    sigemptyset(&none), sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
    FAILS(EINTR, sigsuspend(&none));
    GUEST_POINT();
    SAY("seen %d", seen);
    struct itimerval t = {.it_value = {0, 20000}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
    FAILS(EINTR, pause());
    SAY("seen %d", seen);
    SUCCESS();
}
