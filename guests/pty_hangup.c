// A process that closes the last descriptor of a terminal's master has hung up when close returns. Another process had the descriptor, too, and waits for something else.
// calls: close ioctl setsid rt_sigtimedwait
#include "guest.h"

// A process of its own that has the master no more, and waits in a call.
static pid_t bystander(int master, int ready) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0);
        sa_family_t any = AF_UNIX;
        CHECK(close(master) == 0 && bind(listener, (void *)&any, sizeof any) == 0 && listen(listener, 1) == 0);
        CHECK(write(ready, "x", 1) == 1);
        _exit(accept(listener, NULL, NULL));
    }
    return pid;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int round = 0; round < 5; round++) {
        int master = posix_openpt(O_RDWR | O_NOCTTY), ready[2], status;
        CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 && pipe(ready) == 0);
        char *name = ptsname(master);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            sigset_t set;
            sigemptyset(&set), sigaddset(&set, SIGHUP), sigaddset(&set, SIGCONT), sigaddset(&set, SIGUSR1);
            CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && close(master) == 0);
            CHECK(setsid() == getpid() && open(name, O_RDWR) >= 0);
            CHECK(write(ready[1], "x", 1) == 1);
            sigset_t last;
            sigemptyset(&last), sigaddset(&last, SIGUSR1);
            CHECK(sigwaitinfo(&last, NULL) == SIGUSR1 && sigpending(&last) == 0);
            _exit(sigismember(&last, SIGHUP) ? 1 : 2);
        }
        pid_t other = bystander(master, ready[1]);
        char byte;
        CHECK(read(ready[0], &byte, 1) == 1 && read(ready[0], &byte, 1) == 1);
        if (round == 0) GUEST_POINT();
        CHECK(close(master) == 0 && kill(child, SIGUSR1) == 0);
        CHECK(waitpid(child, &status, 0) == child);
        SAY("hung up before: %d", WEXITSTATUS(status) == 1);
        CHECK(kill(other, SIGKILL) == 0 && waitpid(other, &status, 0) == other);
        CHECK(close(ready[0]) == 0 && close(ready[1]) == 0);
    }
    SUCCESS();
}
