// Dies of SIGPIPE.
// calls: kill
// ends: signal 13
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    puts("EXIT-SUCCESS");
    fflush(stdout);
    signal(SIGPIPE, SIG_DFL);
    GUEST_POINT();
    raise(SIGPIPE);
    for (;;) pause();
}
