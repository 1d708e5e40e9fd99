// What signals do.
// calls: rt_sigaction
#include "guest.h"

static void on(int signal) {
    (void)signal;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_handler = on, .sa_flags = SA_RESETHAND | SA_NODEFER}, b;
    sigaddset(&a.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0 && sigaction(SIGUSR1, NULL, &b) == 0);
    SAY("flags %x, mask %d %d", b.sa_flags & (SA_RESETHAND | SA_NODEFER), sigismember(&b.sa_mask, SIGUSR2), sigismember(&b.sa_mask, SIGHUP));
    GUEST_POINT();
    CHECK(raise(SIGUSR1) == 0 && sigaction(SIGUSR1, NULL, &b) == 0 && b.sa_handler == SIG_DFL);
    SAY("once");
    signal(SIGUSR1, SIG_IGN);
    CHECK(raise(SIGUSR1) == 0);
    SAY("ignored");
    signal(SIGCHLD, SIG_IGN), signal(SIGTTIN, SIG_IGN), signal(SIGTSTP, SIG_DFL);
    CHECK(sigaction(SIGCHLD, NULL, &b) == 0 && b.sa_handler == SIG_IGN);
    FAILS(EINVAL, sigaction(SIGKILL, &a, NULL));
    FAILS(EINVAL, sigaction(SIGSTOP, &a, NULL));
    CHECK(sigaction(SIGKILL, NULL, &b) == 0);
    SUCCESS();
}
