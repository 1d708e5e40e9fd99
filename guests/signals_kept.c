// A signal that is ignored and blocked is kept for who reads it.
// calls: signalfd4 rt_sigaction rt_sigprocmask kill
#include "guest.h"

static void reads(int fd, const char *when) {
    struct pollfd p = {fd, POLLIN, 0};
    struct signalfd_siginfo got;
    CHECK(poll(&p, 1, 20000) == 1 && read(fd, &got, sizeof got) == sizeof got);
    SAY("%s: %s", when, strsignal((int)got.ssi_signo));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGURG), sigaddset(&set, SIGHUP);
    signal(SIGHUP, SIG_IGN);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(fd >= 0);
    signal(SIGURG, SIG_IGN);
    pid_t parent = getpid();
    for (int i = 0; i < 2; i++) {
        int signal = i == 0 ? SIGURG : SIGHUP;
        pid_t child = fork();
        if (child == 0) _exit(kill(parent, signal) != 0);
        reads(fd, "from a child");
        CHECK(waitpid(child, NULL, 0) == child);
    }
    // A child that was made later reads its own.
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        int own = signalfd(-1, &set, 0);
        CHECK(write(ready[1], "r", 1) == 1);
        reads(own, "in a child");
        exit(0);
    }
    char c;
    CHECK(read(ready[0], &c, 1) == 1 && kill(child, SIGURG) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    SUCCESS();
}
