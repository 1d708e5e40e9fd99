// The machine as a whole: clock, name, power, swap, accounts. Harmless arguments only.
#include "attack.h"

int main(void) {
    guard();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    HELD_OFF(RAW(clock_settime, CLOCK_REALTIME, &now));
    struct timeval tv = {now.tv_sec, now.tv_nsec / 1000};
    HELD_OFF(RAW(settimeofday, &tv, NULL));
    struct timex t = {.modes = ADJ_TICK, .tick = 10000};
    HELD_OFF(RAW(adjtimex, &t));
    HELD_OFF(RAW(clock_adjtime, CLOCK_REALTIME, &t));
    HELD_OFF(sethostname("owned", 5));
    HELD_OFF(RAW(setdomainname, "owned", 5));
    HELD_OFF(RAW(reboot, 0xfee1dead, 672274793, 0, NULL));
    HELD_OFF(RAW(swapoff, "/none"));
    HELD_OFF(RAW(swapon, "/none", 0));
    HELD_OFF(RAW(acct, "/tmp/x"));
    HELD_OFF(RAW(quotactl, 0, NULL, 0, NULL));
    HELD_OFF(RAW(vhangup));
    OVER();
}
