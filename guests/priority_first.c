// A process that is served before others, as root's may be, is so when it comes home.
// calls: getpriority setpriority
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int nice = geteuid() == 0 ? -5 : 4;
    CHECK(setpriority(PRIO_PROCESS, 0, nice) == 0);
    GUEST_POINT();
    SAY("as it was: %d", getpriority(PRIO_PROCESS, 0) == nice);
    SUCCESS();
}
