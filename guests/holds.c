// A process is held by another, as debuggers do: seized while it runs, one that asks for it, its memory and registers changed, followed to its end.
// calls: ptrace
#include "guest.h"
#include <sys/ptrace.h>
#include <sys/user.h>

static volatile long number = 1;
static int status;

static void stopped(int pid, int signal) {
    CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == signal);
}

static void ended(int pid) {
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    SAY("ended: %d", WEXITSTATUS(status));
}

static void seized(int pid) {
    CHECK(ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_EXITKILL) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0);
    stopped(pid, SIGTRAP);
    errno = 0;
    long seen = ptrace(PTRACE_PEEKDATA, pid, (void *)&number, NULL);
    CHECK(errno == 0);
    SAY("its number: %ld", seen);
    CHECK(ptrace(PTRACE_POKEDATA, pid, (void *)&number, (void *)7) == 0);
    struct user_regs_struct registers;
    CHECK(ptrace(PTRACE_GETREGS, pid, NULL, &registers) == 0 && registers.rip != 0);
    FAILS(EPERM, (int)ptrace(PTRACE_SEIZE, pid, NULL, NULL));
    CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
    ended(pid);
}

static void attached(int pid) {
    CHECK(ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0);
    stopped(pid, SIGSTOP);
    CHECK(ptrace(PTRACE_POKEDATA, pid, (void *)&number, (void *)9) == 0 && ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
    ended(pid);
}

static int counts(void) {
    int ready[2];
    char c;
    CHECK(pipe(ready) == 0);
    int pid = fork();
    if (pid == 0) {
        number = 5;
        CHECK(write(ready[1], "r", 1) == 1);
        while (number == 5) usleep(1000);
        _exit((int)number);
    }
    CHECK(read(ready[0], &c, 1) == 1 && close(ready[0]) == 0 && close(ready[1]) == 0);
    return pid;
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
    GUEST_POINT();
    seized(counts());
    attached(counts());
    int pid = fork();
    if (pid == 0) {
        char *arguments[] = {argv[0], "ends", NULL};
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) execve("/proc/self/exe", arguments, environ);
        _exit(99);
    }
    follow(pid);
    FAILS(ESRCH, (int)ptrace(PTRACE_CONT, pid, NULL, NULL));
    FAILS(ESRCH, (int)ptrace(PTRACE_SEIZE, 1 << 30, NULL, NULL));
    SUCCESS();
}
