// Barriers between threads: who has registered for them may have them, wherever it runs.
// calls: membarrier rseq
#include "guest.h"

enum { QUERY = 0, GLOBAL = 1 << 1, PRIVATE = 1 << 3, CORES = 1 << 5, SEQUENCES = 1 << 7, REGISTRATIONS = 1 << 9 };

// Each is registered for by the next bit.
static const int kinds[] = {PRIVATE, CORES, SEQUENCES, GLOBAL};

static int barrier(int command) { return RAW(membarrier, command, 0, 0); }

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int offered = barrier(QUERY);
    CHECK(offered > 0);
    FAILS(EPERM, barrier(PRIVATE));
    for (size_t n = 0; n < 3; n++)
        if (offered & kinds[n]) CHECK(barrier(kinds[n] << 1) == 0 && barrier(kinds[n]) == 0);
    int registered = barrier(REGISTRATIONS);
    CHECK(registered > 0 || errno == EINVAL);
    GUEST_POINT();
    CHECK(barrier(REGISTRATIONS) == registered);
    for (size_t n = 0; n < 3; n++)
        if (offered & kinds[n]) CHECK(barrier(kinds[n]) == 0);
    SAY("private barriers work");
    CHECK(barrier(GLOBAL << 1) == 0 && barrier(GLOBAL) == 0);
    FAILS(EINVAL, barrier(12345));
    pid_t child = fork();
    if (child == 0) _exit(barrier(PRIVATE) ? 1 : 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("a child has them, too: %s", status == 0 ? "yes" : "no");
    SUCCESS();
}
