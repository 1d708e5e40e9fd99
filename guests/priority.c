// Nice values.
// calls: getpriority setpriority
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(RAW(getpriority, PRIO_PROCESS, 0) >= 1);
    int before = getpriority(PRIO_PROCESS, 0);
    CHECK(setpriority(PRIO_PROCESS, 0, before + 3 > 19 ? 19 : before + 3) == 0);
    GUEST_POINT();
    SAY("%s", getpriority(PRIO_PROCESS, 0) == (before + 3 > 19 ? 19 : before + 3) ? "nicer" : "not nicer");
    errno = 0;
    CHECK(getpriority(PRIO_PGRP, 0) >= -20 && errno == 0);
    FAILS(EINVAL, RAW(getpriority, 9, 0));
    FAILS(ESRCH, RAW(getpriority, PRIO_PROCESS, 0x7ffffff0));
    SUCCESS();
}
