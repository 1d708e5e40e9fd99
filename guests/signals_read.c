// What was sent by another process, read from a descriptor while waiting in other calls: from whom, how, with which value.
// calls: signalfd4 rt_sigqueueinfo epoll_wait
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGCHLD), sigaddset(&set, SIGRTMIN);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_CLOEXEC), epoll = epoll_create1(0), go[2];
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(fd >= 0 && epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 && pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        char c;
        for (int i = 0; i < 3; i++) {
            CHECK(read(go[0], &c, 1) == 1);
            if (i == 0) CHECK(kill(getppid(), SIGUSR1) == 0);
            if (i == 1) CHECK(sigqueue(getppid(), SIGRTMIN, (union sigval){.sival_int = 77}) == 0);
        }
        _exit(4);
    }
    GUEST_POINT();
    for (int i = 0; i < 3; i++) {
        CHECK(write(go[1], "g", 1) == 1);
        struct signalfd_siginfo info;
        // Waiting for it in one way, then in another.
        struct pollfd p = {fd, POLLIN, 0};
        if (i == 0) CHECK(epoll_wait(epoll, &event, 1, 60000) == 1);
        if (i == 1) CHECK(poll(&p, 1, 60000) == 1);
        CHECK(read(fd, &info, sizeof info) == sizeof info);
        SAY("signal %d, code %d, from the child: %s, value %d, status %d", info.ssi_signo >= (unsigned)SIGRTMIN ? 0 : info.ssi_signo, info.ssi_code,
            info.ssi_pid == (unsigned)child && info.ssi_uid == getuid() ? "yes" : "no", info.ssi_code == SI_QUEUE ? info.ssi_int : 0,
            info.ssi_signo == SIGCHLD ? info.ssi_status : 0);
    }
    SUCCESS();
}
