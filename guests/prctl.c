// Properties of the process.
// calls: prctl
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char name[17] = {0};
    CHECK(prctl(PR_SET_NAME, "renamed-guest-too-long") == 0 && prctl(PR_GET_NAME, name) == 0);
    SAY("%s", name);
    GUEST_POINT();
    SAY("comm: %s", get_file("/proc/self/comm"));
    int on;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &on) == 0 && on == SIGUSR1);
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && prctl(PR_GET_CHILD_SUBREAPER, &on) == 0 && on == 1);
    CHECK(prctl(PR_SET_TIMERSLACK, 12345) == 0 && prctl(PR_GET_TIMERSLACK) == 12345);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    FAILS(EINVAL, prctl(99999));
    SUCCESS();
}
