// Descriptors of other processes: a child is watched, signalled and waited for by its own.
// calls: pidfd_open pidfd_send_signal waitid
#include "guest.h"

static int child(int *fd) {
    int pid = fork();
    if (pid == 0)
        for (;;) pause();
    *fd = RAW(pidfd_open, pid, 0);
    CHECK(*fd >= 0 && fcntl(*fd, F_GETFD) == 1);
    return pid;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd, second, pid = child(&fd);
    struct pollfd p = {fd, POLLIN, 0};
    siginfo_t info = {0};
    CHECK(poll(&p, 1, 0) == 0 && waitid(P_PIDFD, fd, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
    GUEST_POINT();
    CHECK(RAW(pidfd_send_signal, fd, 0, NULL, 0) == 0 && RAW(pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0);
    CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
    CHECK(waitid(P_PIDFD, fd, &info, WEXITED) == 0 && info.si_pid == pid);
    SAY("%d by %d", info.si_code, info.si_status);
    FAILS(ECHILD, waitid(P_PIDFD, fd, &info, WEXITED));
    FAILS(ESRCH, RAW(pidfd_send_signal, fd, SIGTERM, NULL, 0));
    FAILS(ESRCH, RAW(pidfd_open, pid, 0));

    // It stops, goes on, and is waited for by epoll; a copy of the descriptor is as good.
    int second_pid = child(&second), epoll = epoll_create1(0), copy = dup(second);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &event) == 0 && epoll_wait(epoll, &event, 1, 0) == 0);
    CHECK(RAW(pidfd_send_signal, second, SIGSTOP, NULL, 0) == 0 && waitid(P_PIDFD, copy, &info, WSTOPPED) == 0);
    SAY("stopped: %d", info.si_code == CLD_STOPPED && info.si_pid == second_pid);
    CHECK(RAW(pidfd_send_signal, copy, SIGCONT, NULL, 0) == 0 && RAW(pidfd_send_signal, copy, SIGKILL, NULL, 0) == 0);
    CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u32 == 7);
    CHECK(waitid(P_PIDFD, second, &info, WEXITED) == 0 && info.si_pid == second_pid);
    SAY("%d by %d", info.si_code, info.si_status);

    // A directory of /proc does for signals, of a child and of oneself.
    char path[32];
    pid = child(&fd);
    snprintf(path, sizeof path, "/proc/%d", pid);
    int directory = open(path, O_DIRECTORY | O_CLOEXEC);
    CHECK(directory >= 0 && RAW(pidfd_send_signal, directory, 0, NULL, 0) == 0);
    CHECK(RAW(pidfd_send_signal, directory, SIGTERM, NULL, 0) == 0 && waitid(P_PIDFD, fd, &info, WEXITED) == 0);
    SAY("by its directory: %d by %d", info.si_code, info.si_status);
    FAILS(ESRCH, RAW(pidfd_send_signal, directory, 0, NULL, 0));
    CHECK(close(directory) == 0 && (directory = open("/proc/self", O_DIRECTORY | O_CLOEXEC)) >= 0);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && RAW(pidfd_send_signal, directory, SIGUSR1, NULL, 0) == 0);
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == getpid());

    // One's own, and the parent's.
    int own = RAW(pidfd_open, getpid(), 0);
    CHECK(own >= 0);
    FAILS(ECHILD, waitid(P_PIDFD, own, &info, WEXITED));
    if (fork() == 0) {
        p.fd = RAW(pidfd_open, getppid(), 0);
        CHECK(p.fd >= 0 && poll(&p, 1, 0) == 0 && waitid(P_PIDFD, p.fd, &info, WEXITED) == -1);
        _exit(errno == ECHILD ? 0 : 1);
    }
    int status;
    CHECK(wait(&status) > 0);
    SAY("parent's: %d", status);
    FAILS(EBADF, waitid(P_PIDFD, 99, &info, WEXITED));
    FAILS(EBADF, RAW(pidfd_send_signal, 99, 0, NULL, 0));
    SUCCESS();
}
