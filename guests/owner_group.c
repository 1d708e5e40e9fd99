// A process group is told that something can be read.
// calls: fcntl rt_sigtimedwait
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int p[2];
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && pipe(p) == 0);
    GUEST_POINT();
    // In a group of its own, so that nobody else hears of it.
    if (fork() == 0) {
        CHECK(setpgid(0, 0) == 0 && fcntl(p[0], F_SETOWN, -getpid()) == 0 && fcntl(p[0], F_GETOWN) == -getpid());
        CHECK(fcntl(p[0], F_SETSIG, SIGUSR1) == 0 && fcntl(p[0], F_SETFL, O_ASYNC) == 0);
        CHECK(write(p[1], "x", 1) == 1 && sigwaitinfo(&set, &info) == SIGUSR1);
        _exit(info.si_fd == p[0] ? 0 : 1);
    }
    int status;
    CHECK(wait(&status) > 0);
    SAY("ended: %d", status);
    SUCCESS();
}
