// Keys that send signals.
// calls: rt_sigaction rt_sigsuspend ppoll read
// terminal: yes
#include "guest.h"

static volatile int seen;

static void on(int signal) {
    seen = signal;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_handler = on};
    CHECK(sigaction(SIGINT, &a, NULL) == 0 && sigaction(SIGQUIT, &a, NULL) == 0);
    sigset_t all, none;
    sigfillset(&all), sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
    please_type("^C");
    FAILS(EINTR, sigsuspend(&none));
    SAY("signal %d", seen);
    GUEST_POINT();
    please_type("^\\");
    FAILS(EINTR, sigsuspend(&none));
    SAY("signal %d", seen);
    struct pollfd p = {0, POLLIN, 0};
    please_type("^C");
    FAILS(EINTR, ppoll(&p, 1, NULL, &none));
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
    char c;
    signal(SIGINT, SIG_IGN);
    please_type("^Cz$");
    CHECK(read(0, &c, 1) == 1);
    SAY("ignored, then %c", c);
    SUCCESS();
}
