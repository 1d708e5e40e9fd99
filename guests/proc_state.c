// What a process does, as one of its threads sees it: its first thread sleeps.
// calls: openat read
#include "guest.h"

static char state(const char *path, const char *before) {
    char *at = strstr(get_file(path), before);
    CHECK(at);
    return at[strlen(before)];
}

static void *look(void *argument) {
    (void)argument;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", getpid());
    while (state(path, ") ") != 'S' || state("/proc/self/status", "State:\t") != 'S')
        sched_yield();
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t thread;
    SAY("alone: %c", state("/proc/self/stat", ") "));
    GUEST_POINT();
    CHECK(pthread_create(&thread, NULL, look, NULL) == 0 && pthread_join(thread, NULL) == 0);
    SUCCESS();
}
