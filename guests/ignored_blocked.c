// A signal that is ignored and blocked waits, if another process sends it: whoever waits for it takes it.
// calls: rt_sigtimedwait signalfd4 kill rt_sigaction rt_sigprocmask
#include "guest.h"

static void sent_by_child(int signal) {
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(kill(parent, signal) == 0 ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static int pending(int signal) {
    sigset_t set;
    CHECK(sigpending(&set) == 0);
    return sigismember(&set, signal);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t set, old;
    siginfo_t info;
    int got;
    struct timespec second = {5, 0}, none = {0, 0};
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2), sigaddset(&set, SIGCHLD);
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
    GUEST_POINT();
    CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    // Ignored before it was blocked, and after.
    sigdelset(&set, SIGCHLD);
    for (int i = 0; i < 2; i++) {
        sent_by_child(i ? SIGUSR2 : SIGUSR1);
        int taken = sigtimedwait(&set, &info, &second);
        SAY("taken: %d %d, by a process: %d", taken == SIGUSR1, taken == SIGUSR2, taken > 0 && info.si_code == SI_USER && info.si_pid != getpid());
    }
    // While it waits.
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) usleep(20000), _exit(kill(parent, SIGUSR1));
    got = 0;
    SAY("waited: %d", sigtimedwait(&set, NULL, &second) == SIGUSR1);
    CHECK(waitpid(child, &got, 0) == child && got == 0);
    int fd = signalfd(-1, &set, 0);
    struct signalfd_siginfo told;
    CHECK(fd >= 0);
    sent_by_child(SIGUSR2);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    CHECK(poll(&ready, 1, 5000) == 1 && read(fd, &told, sizeof told) == sizeof told);
    SAY("read: %d", told.ssi_signo == SIGUSR2);
    sent_by_child(SIGUSR1);
    SAY("waits: %d", pending(SIGUSR1));
    // Not blocked any more, it is thrown away.
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    SAY("let go: %d", pending(SIGUSR1));
    sent_by_child(SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    SAY("ignored: %d", sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
    sent_by_child(SIGUSR1);
    // To ignore it anew throws away what waits.
    CHECK(signal(SIGUSR1, SIG_IGN) == SIG_IGN);
    SAY("ignored anew: %d", pending(SIGUSR1));
    SUCCESS();
}
