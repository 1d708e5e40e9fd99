// Nice values.
// calls: getpriority setpriority
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(RAW(getpriority, PRIO_PROCESS, 0) >= 1);
    int before = getpriority(PRIO_PROCESS, 0);
    CHECK(setpriority(PRIO_PROCESS, 0, before + 3 > 19 ? 19 : before + 3) == 0);
    GUEST_POINT();
    // What the kernel that runs it says, too: field 19 of stat, after a name without spaces.
    int fd = open("/proc/self/stat", O_RDONLY), nice = 99;
    char stat[512] = {0};
    CHECK(read(fd, stat, sizeof stat - 1) > 0);
    CHECK(sscanf(stat, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d", &nice) == 1);
    SAY("where it runs: %s", nice == (before + 3 > 19 ? 19 : before + 3) ? "nicer" : "not nicer");
    SAY("%s", getpriority(PRIO_PROCESS, 0) == (before + 3 > 19 ? 19 : before + 3) ? "nicer" : "not nicer");
    errno = 0;
    CHECK(getpriority(PRIO_PGRP, 0) >= -20 && errno == 0);
    // Whoever may be served before others at home may say so.
    int may = geteuid() == 0;
    CHECK((setpriority(PRIO_PROCESS, 0, -5) == 0) == may);
    SAY("first: %d", getpriority(PRIO_PROCESS, 0) == (may ? -5 : before + 3 > 19 ? 19 : before + 3));
    FAILS(EINVAL, RAW(getpriority, 9, 0));
    FAILS(ESRCH, RAW(getpriority, PRIO_PROCESS, 0x7ffffff0));
    SUCCESS();
}
