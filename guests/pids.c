// Numbers of the process, its parent, group and session.
// calls: getpid gettid getppid getpgrp getpgid getsid
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char self[32] = {0}, expected[32];
    snprintf(expected, sizeof expected, "%d", getpid());
    CHECK(readlink("/proc/self", self, sizeof self) > 0);
    SAY("/proc/self is getpid: %s", strcmp(self, expected) ? "no" : "yes");
    GUEST_POINT();
    CHECK(RAW(getpid) == RAW(gettid) && RAW(getppid) == getppid());
    CHECK(RAW(getpgrp) == RAW(getpgid, 0) && RAW(getpgid, getpid()) == RAW(getpgrp) && RAW(getsid, 0) == getsid(getpid()));
    FAILS(ESRCH, RAW(getpgid, 0x7ffffff0));
    SUCCESS();
}
