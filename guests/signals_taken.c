// What was sent by another process, taken by waiting: from whom, how, and with which value, in order.
// calls: rt_sigtimedwait rt_sigqueueinfo kill
#include "guest.h"

static sigset_t set;

static void take(pid_t child) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    CHECK(sigwaitinfo(&set, &info) == info.si_signo);
    bool queued = info.si_code == SI_QUEUE;
    SAY("%s %d from the child: %s, code %d, value %d", info.si_signo >= SIGRTMIN ? "real-time" : "signal",
        info.si_signo >= SIGRTMIN ? info.si_signo - SIGRTMIN : info.si_signo, info.si_pid == child && info.si_uid == getuid() ? "yes" : "no",
        info.si_code, queued ? info.si_value.sival_int : info.si_signo == SIGCHLD ? info.si_status : 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigemptyset(&set);
    int signals[] = {SIGUSR1, SIGCHLD, SIGRTMIN, SIGRTMIN + 1};
    for (int i = 0; i < 4; i++) sigaddset(&set, signals[i]);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 4; i++) {
            union sigval value = {.sival_int = 100 + i};
            CHECK(sigqueue(getppid(), SIGRTMIN + 1 - i % 2, value) == 0);
        }
        CHECK(kill(getppid(), SIGUSR1) == 0);
        _exit(3);
    }
    GUEST_POINT();
    // All are there when the child's end is.
    siginfo_t info;
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    for (int i = 0; i < 6; i++) take(child);
    struct timespec none = {0, 0};
    FAILS(EAGAIN, sigtimedwait(&set, &info, &none));
    SUCCESS();
}
