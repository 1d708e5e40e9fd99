// A change of the window's size.
// calls: ioctl rt_sigaction
// terminal: yes
#include "guest.h"

static volatile int seen;

static void on(int signal) {
    (void)signal;
    seen = 1;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_handler = on};
    CHECK(sigaction(SIGWINCH, &a, NULL) == 0);
    sigset_t set, old;
    sigemptyset(&set), sigaddset(&set, SIGWINCH);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
    struct winsize w = {30, 90, 0, 0};
    CHECK(ioctl(1, TIOCSWINSZ, &w) == 0);
    GUEST_POINT();
    while (!seen) sigsuspend(&old);
    memset(&w, 0, sizeof w);
    CHECK(ioctl(0, TIOCGWINSZ, &w) == 0);
    SAY("told of %d x %d", w.ws_row, w.ws_col);
    SUCCESS();
}
