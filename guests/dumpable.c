// Who does not want to be looked into (PR_SET_DUMPABLE), as ssh-agent does not: its files of /proc are root's then.
// calls: prctl
#include "guest.h"

static void owner(const char *when) {
    struct stat found;
    CHECK(stat("/proc/self/mem", &found) == 0);
    SAY("%s: dumpable %d, its memory is %s", when, prctl(PR_GET_DUMPABLE), found.st_uid == getuid() ? "its user's" : "not");
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    if (getuid() == 0) {
        CHECK(setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
        CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    }
    owner("before");
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    owner("set");
    GUEST_POINT();
    owner("still");
    FAILS(EINVAL, prctl(PR_SET_DUMPABLE, 2));
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    owner("no more");
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    owner("at the end");
    SUCCESS();
}
