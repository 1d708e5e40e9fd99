// The whole processor for itself.
#include "attack.h"

int main(void) {
    guard();
    struct sched_param p = {50};
    HELD_OFF(sched_setscheduler(0, SCHED_FIFO, &p));
    HELD_OFF(sched_setscheduler(0, SCHED_RR, &p));
    HELD_OFF(setpriority(PRIO_PROCESS, 0, -20));
    HELD_OFF(RAW(ioprio_set, 1, 0, 1 << 13));
    HELD_OFF(mlock((void *)0, 1UL << 40));
    struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY};
    struct rlimit had;
    CHECK(getrlimit(RLIMIT_NOFILE, &had) == 0);
    l.rlim_cur = l.rlim_max = had.rlim_max + 1;
    HELD_OFF(setrlimit(RLIMIT_NOFILE, &l));
    HELD_OFF(sched_setscheduler(1, SCHED_BATCH, &(struct sched_param){0}));
    HELD_OFF(RAW(migrate_pages, 1, 64, NULL, NULL));
    OVER();
}
