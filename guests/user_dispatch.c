// Calls that come back to the program (PR_SET_SYSCALL_USER_DISPATCH), as emulators of other systems have it: at home alone.
// calls: prctl
#include "guest.h"

enum { DISPATCH = 59 };

static volatile char selector;
static volatile int came_back;

static void back(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    selector = 0;
    came_back = info->si_syscall;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction action = {.sa_sigaction = back, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    GUEST_POINT();
    CHECK(prctl(DISPATCH, 0, 0, 0, 0) == 0);
    CHECK(prctl(DISPATCH, 1, 0, 0, &selector) == 0);
    selector = 1;
    RAW(getpid);
    SAY("came back: %s", came_back == SYS_getpid ? "yes" : "no");
    CHECK(RAW(getpid) > 0 && prctl(DISPATCH, 0, 0, 0, 0) == 0);
    SUCCESS();
}
