// Processes that share more, or less, than fork(2) has them do: their table of descriptors, their directory, their memory; and that end with another signal.
// calls: clone
#include "guest.h"

static volatile sig_atomic_t signals;
static volatile int common;
static char stack[1 << 16] __attribute__((aligned(16)));

static void got(int signal) {
    (void)signal;
    signals++;
}

static int ended(int pid, int options) {
    int status;
    CHECK(waitpid(pid, &status, options) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int write_common(void *argument) {
    common = *(int *)argument;
    return 5;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int pid = RAW(clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        int fd = open("file", O_CREAT | O_RDWR, 0600);
        _exit(dup2(fd, 50) == 50 && write(50, "child ", 6) == 6 ? 3 : 1);
    }
    CHECK(pid > 0);
    SAY("files: %d", ended(pid, 0));
    CHECK(write(50, "parent", 6) == 6);
    char text[16] = "";
    CHECK(pread(50, text, sizeof text, 0) == 12);
    SAY("read: %s", text);
    GUEST_POINT();

    pid = RAW(clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(mkdir("below", 0700) == 0 && chdir("below") == 0 ? (umask(027), 4) : 1);
    CHECK(pid > 0);
    SAY("directory: %d", ended(pid, 0));
    CHECK(access("../file", F_OK) == 0);
    SAY("mask: %o", umask(022));
    GUEST_POINT();

    // No signal is lost: it is blocked until it is waited for.
    sigset_t set, old;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0 && signal(SIGUSR1, got) != SIG_ERR);
    pid = RAW(clone, SIGUSR1, 0, 0, 0, 0);
    if (pid == 0) _exit(6);
    CHECK(pid > 0);
    while (!signals) sigsuspend(&old);
    FAILS(ECHILD, waitpid(-1, NULL, 0));
    SAY("another signal: %d", ended(pid, __WALL));
    GUEST_POINT();

    pid = RAW(clone, 0, 0, 0, 0, 0);
    if (pid == 0) _exit(7);
    CHECK(pid > 0);
    SAY("no signal: %d", ended(pid, __WCLONE));

    int value = 42;
    pid = clone(write_common, stack + sizeof stack, CLONE_VM | SIGCHLD, &value);
    CHECK(pid > 0);
    SAY("memory: %d", ended(pid, 0));
    SAY("written: %d", common);
    GUEST_POINT();
    pid = fork();
    if (pid == 0) _exit(8);
    SAY("fork: %d", ended(pid, 0));
    SUCCESS();
}
