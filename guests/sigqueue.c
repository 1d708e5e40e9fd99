// Real-time signals keep their order and values.
// calls: rt_sigqueueinfo rt_tgsigqueueinfo
#include "guest.h"

static char order[200];

static void on(int signal, siginfo_t *info, void *context) {
    (void)context;
    char one[32];
    snprintf(one, sizeof one, " %d=%d(%d)", signal - SIGRTMIN, info->si_value.sival_int, info->si_code);
    strcat(order, one);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < 3; i++) {
        sigaddset(&a.sa_mask, SIGRTMIN + i), sigaddset(&set, SIGRTMIN + i);
        CHECK(sigaction(SIGRTMIN + i, &a, NULL) == 0);
    }
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < 6; i++) CHECK(sigqueue(getpid(), SIGRTMIN + 2 - i % 3, (union sigval){.sival_int = i}) == 0);
    GUEST_POINT();
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    SAY("order:%s", order);
    siginfo_t info = {.si_signo = SIGRTMIN, .si_code = -60};
    info.si_pid = 7, info.si_value.sival_int = 8;
    order[0] = 0;
    CHECK(RAW(rt_tgsigqueueinfo, getpid(), gettid(), SIGRTMIN, &info) == 0);
    SAY("own code:%s", order);
    SUCCESS();
}
