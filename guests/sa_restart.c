// A read that a handler interrupts goes on, or does not.
// calls: read rt_sigaction setitimer
#include "guest.h"

static volatile int write_end, silent;

static void feed(int signal) {
    (void)signal;
    if (!silent && write(write_end, "fed", 3) != 3) _exit(9);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int p[2];
    CHECK(pipe(p) == 0);
    write_end = p[1];
    struct sigaction a = {.sa_handler = feed, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &a, NULL) == 0);
    struct itimerval t = {.it_value = {0, 20000}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
    char b[8] = {0};
    GUEST_POINT();
    CHECK(read(p[0], b, 8) == 3);
    SAY("restarted: %s", b);
    a.sa_flags = 0, silent = 1;
    CHECK(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &t, NULL) == 0);
    FAILS(EINTR, read(p[0], b, 8));
    SUCCESS();
}
