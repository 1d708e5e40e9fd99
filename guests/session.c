// A session of its own, without a terminal.
// calls: setsid getsid
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    if (getpgrp() == getpid()) {
        // Started as a leader of a group, as a shell does: then it may not.
        CHECK(RAW(setsid) == -1 && errno == EPERM);
    } else {
        CHECK(RAW(setsid) == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
        CHECK(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
    }
    GUEST_POINT();
    FAILS(EPERM, RAW(setsid));
    SUCCESS();
}
