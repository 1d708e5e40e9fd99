// Signals to oneself arrive before the call returns.
// calls: tgkill tkill
#include "guest.h"

static volatile int code, from;

static void on(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    code = info->si_code;
    from = info->si_pid == getpid() && info->si_uid == getuid();
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_sigaction = on, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
    CHECK(RAW(tgkill, getpid(), gettid(), SIGUSR1) == 0);
    SAY("tgkill: code %d, from self %d", code, from);
    GUEST_POINT();
    CHECK(RAW(tkill, gettid(), SIGUSR1) == 0);
    SAY("tkill: code %d, from self %d", code, from);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    SAY("kill: code %d, from self %d", code, from);
    FAILS(EINVAL, RAW(tgkill, -1, gettid(), SIGUSR1));
    FAILS(EINVAL, RAW(tgkill, getpid(), gettid(), 100));
    SUCCESS();
}
