// A descriptor for oneself.
// calls: pidfd_open pidfd_send_signal
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = RAW(pidfd_open, getpid(), 0);
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == 1);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && RAW(pidfd_send_signal, fd, SIGUSR1, NULL, 0) == 0);
    GUEST_POINT();
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
    SAY("code %d", info.si_code);
    struct pollfd p = {fd, POLLIN, 0};
    SAY("ended: %d", poll(&p, 1, 0));
    FAILS(EINVAL, RAW(pidfd_open, getpid(), 12345));
    SUCCESS();
}
