// A child that is made just after a close does not have what was closed: the reader of a pipe sees its end while the children live.
// calls: close clone clone3 pipe2 read
#include "guest.h"

// Others are closed as well, so that the last close is still on its way when the child is made.
enum { OTHERS = 12 };

static bool ends(int pipe) {
    struct pollfd end = {.fd = pipe, .events = POLLIN};
    char byte;
    return poll(&end, 1, 20000) == 1 && read(pipe, &byte, 1) == 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int ended = 0;
    for (int i = 0; i < 300; i++) {
        if (i == 150) GUEST_POINT();
        int ends_of[2], others[OTHERS];
        for (int n = 0; n < OTHERS; n++) CHECK((others[n] = eventfd(0, 0)) >= 0);
        CHECK(pipe(ends_of) == 0);
        for (int n = 0; n < OTHERS; n++) close(others[n]);
        close(ends_of[1]);
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        bool has_ended = ends(ends_of[0]);
        ended += has_ended;
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child);
        close(ends_of[0]);
        if (!has_ended) break;
    }
    SAY("pipes that ended: %d", ended);
    SUCCESS();
}
