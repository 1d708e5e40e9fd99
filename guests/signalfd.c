// Signals as a file.
// calls: signalfd signalfd4
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    struct signalfd_siginfo info;
    FAILS(EAGAIN, read(fd, &info, sizeof info));
    CHECK(kill(getpid(), SIGUSR2) == 0 && kill(getpid(), SIGUSR1) == 0);
    GUEST_POINT();
    struct pollfd p = {fd, POLLIN, 0};
    CHECK(poll(&p, 1, 10000) == 1);
    for (int i = 0; i < 2; i++) {
        CHECK(read(fd, &info, sizeof info) == sizeof info && info.ssi_pid == (uint32_t)getpid());
        SAY("signal %d", info.ssi_signo);
    }
    int other = RAW(signalfd, -1, &set, 8);
    CHECK(other >= 0);
    SUCCESS();
}
