// A child of vfork asks to be traced, as those of gdb do, and has a pipe that ends with it.
// calls: ptrace
#include "guest.h"
#include <sys/ptrace.h>

static int status;

static void stopped(int pid, int signal) {
    CHECK(waitpid(pid, &status, __WALL) == pid);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != signal) SAY("not stopped: %x", status);
}

static void ended(int pid) {
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    SAY("ended: %d", WEXITSTATUS(status));
}

// It stops when it has its program, is told to end otherwise, and does.
static void follow(int pid) {
    stopped(pid, SIGTRAP);
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACEEXIT) == 0);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8));
    unsigned long code;
    CHECK(ptrace(PTRACE_GETEVENTMSG, pid, NULL, &code) == 0);
    SAY("exits with %lx", code);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
    ended(pid);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "ends")) _exit(3);
    char *arguments[] = {argv[0], "ends", NULL}, c;
    int common[2];
    CHECK(pipe2(common, O_CLOEXEC) == 0);
    GUEST_POINT();
    int pid = vfork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) execve("/proc/self/exe", arguments, environ);
        _exit(99);
    }
    CHECK(close(common[1]) == 0 && read(common[0], &c, 1) == 0);
    follow(pid);
    SUCCESS();
}
