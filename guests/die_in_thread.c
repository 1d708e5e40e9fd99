// A thread's fault ends all.
// calls: exit_group rt_sigaction
// ends: signal 4
#include "guest.h"

static void *die(void *arg) {
    __asm__ volatile("ud2");
    return arg;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    puts("EXIT-SUCCESS");
    fflush(stdout);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, die, NULL) == 0);
    GUEST_POINT();
    for (;;) pause();
}
