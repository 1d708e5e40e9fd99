// Dies of SIGABRT.
// calls: kill
// ends: signal 6
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    puts("EXIT-SUCCESS");
    fflush(stdout);
    signal(SIGABRT, SIG_DFL);
    GUEST_POINT();
    raise(SIGABRT);
    for (;;) pause();
}
