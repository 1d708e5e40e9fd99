// Signals taken by waiting.
// calls: rt_sigtimedwait
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct timespec soon = {0, 10000000};
    FAILS(EAGAIN, sigtimedwait(&set, NULL, &soon));
    CHECK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 42}) == 0 && raise(SIGUSR1) == 0);
    GUEST_POINT();
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
    SAY("value %d", info.si_value.sival_int);
    SUCCESS();
}
