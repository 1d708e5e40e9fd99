// Dies of SIGTERM.
// calls: kill
// ends: signal 15
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    puts("EXIT-SUCCESS");
    fflush(stdout);
    signal(SIGTERM, SIG_DFL);
    GUEST_POINT();
    raise(SIGTERM);
    for (;;) pause();
}
