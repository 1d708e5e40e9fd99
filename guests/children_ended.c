// Who has heard of a child's end relies on it: the child's end of a pipe is closed, its locks are free, and its number is nobody's. Children that were just made can be
// killed, held by a descriptor and waited for, and of several that end at once none is lost.
// calls: wait4 waitid kill pidfd_open
#include "guest.h"
#include <spawn.h>

extern char **environ;

static int pipe_ends[2];

// A child that has the only reading end and waits.
static pid_t reader(void) {
    CHECK(pipe(pipe_ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (;;) pause();
    }
    CHECK(close(pipe_ends[0]) == 0);
    return child;
}

// Nobody reads any more.
static void is_broken(pid_t child) {
    errno = 0;
    CHECK(write(pipe_ends[1], "x", 1) == -1 && errno == EPIPE);
    CHECK(close(pipe_ends[1]) == 0);
    (void)child;
}

static void wait_for(pid_t child, int status) {
    int got;
    CHECK(waitpid(child, &got, 0) == child);
    CHECK(got == status);
    CHECK(kill(child, 0) == -1 && errno == ESRCH);
}

static void killed_and_waited_for(void) {
    pid_t child = reader();
    CHECK(kill(child, SIGKILL) == 0);
    wait_for(child, SIGKILL);
    is_broken(child);
}

static void killed_and_looked_at(void) {
    pid_t child = reader();
    siginfo_t info;
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    CHECK(info.si_code == CLD_KILLED && info.si_pid == child);
    is_broken(child);
    wait_for(child, SIGKILL);
}

static void killed_and_told_of(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    pid_t child = reader();
    siginfo_t info;
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(sigwaitinfo(&set, &info) == SIGCHLD);
    CHECK(info.si_code == CLD_KILLED && info.si_pid == child);
    is_broken(child);
    wait_for(child, SIGKILL);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
}

static void killed_and_polled(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(7);
    int held = (int)RAW(pidfd_open, child, 0);
    CHECK(held >= 0);
    struct pollfd ended = {held, POLLIN, 0};
    CHECK(poll(&ended, 1, -1) == 1);
    wait_for(child, 7 << 8);
    CHECK(close(held) == 0);
}

static void spawned_and_killed(void) {
    char *words[] = {"/proc/self/exe", "sleep", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, words[0], NULL, NULL, words, environ) == 0);
    CHECK(kill(child, SIGTERM) == 0);
    wait_for(child, SIGTERM);
}

enum { AT_ONCE = 6 };

// Some end by themselves, some are killed, all at the same moment.
static void several(void) {
    pid_t children[AT_ONCE];
    int go[2];
    CHECK(pipe(go) == 0);
    for (int i = 0; i < AT_ONCE; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            char byte;
            close(go[1]);
            if (read(go[0], &byte, 1) == 0 && i % 3) _exit(i);
            for (;;) pause();
        }
    }
    CHECK(close(go[0]) == 0 && close(go[1]) == 0);
    for (int i = 0; i < AT_ONCE; i += 3) CHECK(kill(children[i], i ? SIGTERM : SIGKILL) == 0);
    int seen = 0;
    for (int i = 0; i < AT_ONCE; i++) {
        int status, which = 0;
        pid_t child = waitpid(-1, &status, 0);
        CHECK(child > 0);
        while (which < AT_ONCE && children[which] != child) which++;
        CHECK(which < AT_ONCE && !(seen & 1 << which));
        CHECK(status == (which % 3 ? which << 8 : which ? SIGTERM : SIGKILL));
        seen |= 1 << which;
    }
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "sleep")) {
        for (;;) pause();
    }
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    void (*cases[])(void) = {
        killed_and_waited_for, killed_and_looked_at, killed_and_told_of, killed_and_polled, spawned_and_killed, several,
    };
    for (int round = 0; round < 12; round++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) cases[i]();
        if (round == 5) GUEST_POINT();
    }
    SAY("all ended as they should");
    SUCCESS();
}
