// Waiting without children.
// calls: wait4 waitid
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int status;
    FAILS(ECHILD, RAW(wait4, -1, &status, 0, NULL));
    FAILS(ECHILD, RAW(wait4, -1, &status, WNOHANG, NULL));
    GUEST_POINT();
    siginfo_t info;
    FAILS(ECHILD, RAW(waitid, P_ALL, 0, &info, WEXITED, NULL));
    FAILS(EINVAL, RAW(waitid, P_ALL, 0, &info, 0, NULL));
    SUCCESS();
}
