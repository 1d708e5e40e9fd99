// The first thread ends first; the last one's status counts.
// calls: exit exit_group
// ends: exit 5
#include "guest.h"

static void *last(void *arg) {
    // Until the first thread is a zombie.
    for (char state = 0; state != 'Z';) {
        FILE *f = fopen("/proc/self/stat", "r");
        CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
        fclose(f);
    }
    puts("EXIT-SUCCESS");
    fflush(stdout);
    _exit(5);
    return arg;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t t;
    CHECK(pthread_create(&t, NULL, last, NULL) == 0);
    GUEST_POINT();
    RAW(exit, 3);
}
