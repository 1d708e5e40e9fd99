// FIFOs by name whose other end is closed, and what a descriptor of one is.
// calls: openat write fstat rt_sigaction
#include "guest.h"

static volatile sig_atomic_t pipes, own;

static void broken(int signal, siginfo_t *info, void *context) {
    (void)context;
    pipes += signal == SIGPIPE;
    own += info->si_code == SI_USER && info->si_pid == getpid() && info->si_uid == getuid();
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(mkfifo("p", 0600) == 0);
    int r = open("p", O_RDONLY | O_NONBLOCK), w = open("p", O_WRONLY);
    CHECK(r >= 0 && w >= 0);
    CHECK(write(w, "abc", 3) == 3);
    char b[10];
    CHECK(read(r, b, sizeof b) == 3);
    // The usual way to look at standard input.
    struct stat s, named;
    struct statx x;
    int input = dup(0);
    CHECK(dup2(r, 0) == 0 && fstat(0, &s) == 0 && stat("p", &named) == 0);
    SAY("mode %o, size %ld, the same: %d", s.st_mode, (long)s.st_size, s.st_ino == named.st_ino);
    CHECK(statx(0, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0);
    SAY("mode %o, links %u, mine: %d", x.stx_mode, x.stx_nlink, x.stx_uid == getuid());
    FAILS(ESPIPE, lseek(0, 0, SEEK_CUR));
    CHECK(dup2(input, 0) == 0);
    struct sigaction action = {.sa_sigaction = broken, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGPIPE, &action, NULL) == 0);
    CHECK(close(r) == 0);
    FAILS(EPIPE, write(w, "abc", 3));
    SAY("SIGPIPE %d, from itself %d", (int)pipes, (int)own);
    signal(SIGPIPE, SIG_IGN);
    FAILS(EPIPE, write(w, "abc", 3));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGPIPE, SIG_DFL);
        if (write(w, "abc", 3) < 0) _exit(1);
        _exit(2);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("child: %s", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "lives");
    SUCCESS();
}
