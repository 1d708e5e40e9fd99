// Children that are stopped and continued, by themselves and by others, as their parent sees it.
// calls: wait4 waitid kill tgkill rt_sigaction
#include "guest.h"

static volatile int told, stopped_told, continued_told, handled;
static int go[2];

// The parent has seen what happened.
static void wait_to_go(void) {
    char c;
    while (read(go[0], &c, 1) != 1) continue;
}

static void on_child(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    told++;
    stopped_told += info->si_code == CLD_STOPPED;
    continued_told += info->si_code == CLD_CONTINUED;
}

static void on_continue(int signal) {
    (void)signal;
    handled++;
}

// As vi does: the handler puts the terminal in order, then stops for good.
static void on_stop(int signal) {
    struct sigaction old, a = {.sa_handler = SIG_DFL};
    sigaction(signal, &a, &old);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, signal);
    kill(getpid(), signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigaction(signal, &old, NULL);
}

static void child(void) {
    // A group with a parent outside of it: not orphaned.
    setpgid(0, 0);
    struct sigaction a = {.sa_handler = on_continue};
    sigaction(SIGCONT, &a, NULL);
    raise(SIGSTOP);
    CHECK(handled == 1);
    wait_to_go();
    kill(getpid(), SIGTSTP);
    CHECK(handled == 2);
    wait_to_go();
    a.sa_handler = on_stop;
    sigaction(SIGTSTP, &a, NULL);
    raise(SIGTSTP);
    CHECK(handled == 3);
    wait_to_go();
    // Ignored, blocked: nothing stops.
    signal(SIGTTIN, SIG_IGN);
    kill(getpid(), SIGTTIN);
    sigset_t set, old;
    sigemptyset(&set), sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, &old);
    kill(getpid(), SIGTTOU);
    sigpending(&set);
    CHECK(sigismember(&set, SIGTTOU) == 1);
    sigprocmask(SIG_SETMASK, &old, NULL);
    CHECK(handled == 4);
    wait_to_go();
    _exit(5);
}

static void expect(pid_t pid, int signal) {
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    SAY("stopped by %d (%d)", WSTOPSIG(status), signal);
    CHECK(waitpid(pid, &status, WUNTRACED | WCONTINUED | WNOHANG) == 0);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status));
    CHECK(write(go[1], "g", 1) == 1);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK(sigaction(SIGCHLD, &a, NULL) == 0);
    CHECK(pipe(go) == 0);
    pid_t pid = fork();
    if (pid == 0) child();
    GUEST_POINT();
    expect(pid, SIGSTOP);
    expect(pid, SIGTSTP);
    expect(pid, SIGTSTP);
    expect(pid, SIGTTOU);
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    SAY("exit %d", WEXITSTATUS(status));
    CHECK(told >= 5 && stopped_told >= 1 && continued_told >= 1);
    // Not told of stops, but they are seen.
    a.sa_flags |= SA_NOCLDSTOP;
    CHECK(sigaction(SIGCHLD, &a, NULL) == 0);
    told = 0;
    pid = fork();
    if (pid == 0)
        for (;;) pause();
    CHECK(kill(pid, SIGSTOP) == 0);
    siginfo_t info;
    CHECK(waitid(P_PID, pid, &info, WSTOPPED | WNOWAIT) == 0 && info.si_code == CLD_STOPPED && info.si_status == SIGSTOP);
    CHECK(waitid(P_PID, pid, &info, WSTOPPED) == 0 && info.si_pid == pid);
    SAY("told %d", told);
    CHECK(kill(pid, SIGTERM) == 0 && waitid(P_PID, pid, &info, WEXITED | WNOHANG) == 0);
    CHECK(kill(pid, SIGCONT) == 0 && waitpid(pid, &status, 0) == pid);
    SAY("signal %d", WTERMSIG(status));
    SUCCESS();
}
