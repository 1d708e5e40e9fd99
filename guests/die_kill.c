// Dies of SIGKILL.
// calls: kill
// ends: signal 9
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    puts("EXIT-SUCCESS");
    fflush(stdout);
    signal(SIGKILL, SIG_DFL);
    GUEST_POINT();
    kill(getpid(), SIGKILL);
    for (;;) pause();
}
