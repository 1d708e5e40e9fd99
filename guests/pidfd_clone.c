// Children that are made together with a descriptor of theirs (CLONE_PIDFD), as forks and as Go's runtime makes them.
// calls: clone clone3 waitid vfork
#include "guest.h"
#include <linux/sched.h>
#include <sched.h>

static char stack[64 << 10] __attribute__((aligned(16)));

static int ends_with(void *status) { _exit(*(int *)status); }

// Waits for a child by its descriptor, which is closed at exec.
static void ends(int fd, int pid, int status) {
    siginfo_t info = {0};
    struct pollfd p = {fd, POLLIN, 0};
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(poll(&p, 1, -1) == 1 && waitid(P_PIDFD, fd, &info, WEXITED) == 0);
    CHECK(info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == status);
    CHECK(close(fd) == 0);
}

static void forked(int status) {
    int fd = -1, tid = -1;
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID, .exit_signal = SIGCHLD};
    args.pidfd = (uintptr_t)&fd, args.parent_tid = (uintptr_t)&tid;
    int pid = RAW(clone3, &args, sizeof args);
    if (pid == 0) _exit(status);
    CHECK(pid > 0 && tid == pid);
    ends(fd, pid, status);
    pid = RAW(clone, CLONE_PIDFD | SIGCHLD, NULL, &fd, NULL, 0);
    if (pid == 0) _exit(status);
    ends(fd, pid, status);
}

static void vforked(int status) {
    int fd = -1, pid = vfork();
    if (pid == 0) _exit(status);
    CHECK(pid > 0 && waitpid(pid, &fd, 0) == pid && WEXITSTATUS(fd) == status);
    pid = clone(ends_with, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &status, &fd);
    CHECK(pid > 0);
    ends(fd, pid, status);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int i = 0; i < 5; i++) forked(i), vforked(i);
    GUEST_POINT();
    for (int i = 0; i < 20; i++) forked(i), vforked(i);

    // It is signalled by it.
    int fd, status;
    struct clone_args args = {.flags = CLONE_PIDFD, .exit_signal = SIGCHLD, .pidfd = (uintptr_t)&fd};
    int pid = RAW(clone3, &args, sizeof args);
    if (pid == 0)
        for (;;) pause();
    CHECK(RAW(pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0 && waitpid(pid, &status, 0) == pid);
    SAY("ended by %d", WTERMSIG(status));
    FAILS(ESRCH, RAW(pidfd_send_signal, fd, SIGTERM, NULL, 0));
    CHECK(close(fd) == 0);

    // What cannot be, makes no child.
    args.pidfd = 8;
    FAILS(EFAULT, RAW(clone3, &args, sizeof args));
    FAILS(EFAULT, RAW(clone, CLONE_PIDFD | SIGCHLD, NULL, (void *)8, NULL, 0));
    FAILS(EINVAL, RAW(clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, NULL, &fd, NULL, 0));
    FAILS(ECHILD, wait(NULL));
    SUCCESS();
}
