// In a group that nobody looks after, the keyboard's stops do nothing; SIGSTOP does.
// calls: setsid kill wait4
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(setsid() == getpid());
        raise(SIGTSTP), raise(SIGTTIN), raise(SIGTTOU);
        raise(SIGSTOP);
        _exit(7);
    }
    GUEST_POINT();
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    SAY("stopped by %d", WSTOPSIG(status));
    CHECK(kill(pid, SIGCONT) == 0 && waitpid(pid, &status, 0) == pid);
    SAY("exit %d", WEXITSTATUS(status));
    SUCCESS();
}
