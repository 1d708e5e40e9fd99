// Dies of a wild store.
// calls: rt_sigaction
// ends: signal 11
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    puts("EXIT-SUCCESS");
    fflush(stdout);
    GUEST_POINT();
    *(volatile int *)8 = 1;
}
