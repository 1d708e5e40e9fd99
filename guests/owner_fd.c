// A signal that tells which descriptor is ready names it as the program does.
// calls: fcntl rt_sigtimedwait
#include "guest.h"

static sigset_t set;

static void wait_for(int fd, int from) {
    siginfo_t info;
    CHECK(write(from, "x", 1) == 1 && sigwaitinfo(&set, &info) == SIGUSR1);
    SAY("%s: %s", info.si_code == POLL_IN ? "readable" : "something else", info.si_fd == fd ? "the descriptor" : "another one");
    char byte;
    CHECK(read(fd, &byte, 1) == 1);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int p[2];
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    // Somebody has the pipe in common with it, so that it is home's.
    CHECK(pipe(p) == 0);
    int go[2];
    CHECK(pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(go[1]);
        _exit((int)read(go[0], &byte, 1));
    }
    CHECK(dup2(p[0], 40) == 40 && close(p[0]) == 0);
    CHECK(fcntl(40, F_SETOWN, getpid()) == 0 && fcntl(40, F_SETSIG, SIGUSR1) == 0 && fcntl(40, F_SETFL, O_ASYNC) == 0);
    wait_for(40, p[1]);
    GUEST_POINT();
    wait_for(40, p[1]);
    CHECK(dup2(40, 50) == 50 && close(40) == 0);
    CHECK(fcntl(50, F_SETFL, 0) == 0 && fcntl(50, F_SETFL, O_ASYNC) == 0);
    wait_for(50, p[1]);
    int status;
    close(go[1]);
    CHECK(wait(&status) == child && status == 0);
    SUCCESS();
}
