// The machine and the thread's place on it.
// calls: sysinfo getcpu arch_prctl personality
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sysinfo s;
    unsigned cpu, node;
    CHECK(RAW(sysinfo, &s) == 0 && s.totalram > 0 && s.uptime > 0 && RAW(getcpu, &cpu, &node, NULL) == 0);
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    SAY("uptime is the clock's: %s", labs(t.tv_sec - s.uptime) <= 60 ? "yes" : "no");
    GUEST_POINT();
    unsigned long fs = 0;
    CHECK(RAW(arch_prctl, 0x1003, &fs) == 0 && fs != 0);
    CHECK(RAW(personality, 0xffffffff) == 0 && RAW(personality, 0x0040000) == 0 && RAW(personality, 0xffffffff) == 0x0040000);
    SAY("CPUs: %s", sysconf(_SC_NPROCESSORS_ONLN) > 0 ? "some" : "none");
    SUCCESS();
}
