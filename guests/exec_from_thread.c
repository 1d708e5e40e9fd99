// A thread execs: the others end, and it becomes the first.
// calls: execve clone
#include "guest.h"

static const char *name;

static void *idle(void *arg) {
    for (;;) pause();
    return arg;
}

static void *change(void *arg) {
    execl("/proc/self/exe", name, "changed", NULL);
    CHECK(!"execve");
    return arg;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    if (argc > 1) {
        SAY("%s: one thread, %s", argv[1], gettid() == getpid() ? "the first" : "not the first");
        SUCCESS();
    }
    name = argv[0];
    pthread_t t;
    CHECK(pthread_create(&t, NULL, idle, NULL) == 0 && pthread_create(&t, NULL, change, NULL) == 0);
    GUEST_POINT();
    for (;;) pause();
    SUCCESS();
}
