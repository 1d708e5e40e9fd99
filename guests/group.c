// A process group of its own.
// calls: setpgid getpgid
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(RAW(setpgid, 0, 0) == 0);
    GUEST_POINT();
    SAY("leads its group: %s", getpgrp() == getpid() ? "yes" : "no");
    FAILS(EPERM, RAW(setsid));
    FAILS(EINVAL, RAW(setpgid, 0, -1));
    FAILS(ESRCH, RAW(setpgid, 1, 0));
    SUCCESS();
}
