// Blocked and pending signals.
// calls: rt_sigprocmask rt_sigpending kill
#include "guest.h"

static volatile int seen;

static void count(int signal) {
    (void)signal;
    seen++;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_handler = count};
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
    sigset_t set, old;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0 && !sigismember(&old, SIGUSR1));
    CHECK(RAW(kill, getpid(), SIGUSR1) == 0 && RAW(kill, getpid(), SIGUSR1) == 0);
    GUEST_POINT();
    CHECK(sigpending(&set) == 0);
    SAY("pending %d, seen %d", sigismember(&set, SIGUSR1), seen);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    SAY("seen %d", seen);
    CHECK(RAW(kill, getpid(), SIGUSR1) == 0);
    SAY("before the next line: seen %d", seen);
    CHECK(RAW(kill, getpid(), 0) == 0);
    FAILS(EINVAL, RAW(kill, getpid(), 99));
    FAILS(EINVAL, RAW(rt_sigprocmask, 9, &set, NULL, 8));
    SUCCESS();
}
