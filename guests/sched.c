// Scheduling.
// calls: sched_getaffinity sched_setaffinity sched_getscheduler sched_setscheduler sched_getparam sched_setparam sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_getattr sched_setattr ioprio_get ioprio_set
#include "guest.h"
#include <pthread.h>

static pthread_barrier_t moved;

// One that has not chosen may run wherever it might if it asked for all.
static void *everywhere(void *unused) {
    cpu_set_t now, most;
    pthread_barrier_wait(&moved);
    CHECK(sched_getaffinity(0, sizeof now, &now) == 0);
    memset(&most, 0xff, sizeof most);
    CHECK(sched_setaffinity(0, sizeof most, &most) == 0 && sched_getaffinity(0, sizeof most, &most) == 0);
    SAY("another thread: %s", CPU_EQUAL(&now, &most) ? "everywhere" : "not everywhere");
    return unused;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    cpu_set_t set, one;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0);
    pthread_t other;
    CHECK(pthread_barrier_init(&moved, NULL, 2) == 0 && pthread_create(&other, NULL, everywhere, NULL) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) {
            CPU_SET(i, &one);
            break;
        }
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    struct sched_param p = {0};
    CHECK(sched_setscheduler(0, SCHED_BATCH, &p) == 0);
    CHECK(RAW(ioprio_set, 1, 0, (2 << 13) | 7) == 0);
    GUEST_POINT();
    pthread_barrier_wait(&moved);
    pthread_join(other, NULL);
    cpu_set_t now;
    CHECK(sched_getaffinity(0, sizeof now, &now) == 0);
    SAY("on the processor that it chose: %s", CPU_EQUAL(&now, &one) ? "yes" : "no");
    SAY("policy %#x, I/O priority %#lx", sched_getscheduler(0), RAW(ioprio_get, 1, 0));
    CHECK(sched_setscheduler(0, SCHED_OTHER, &p) == 0);
    // Who wants all gets as many as there are.
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0 && sched_getaffinity(0, sizeof now, &now) == 0 && CPU_COUNT(&now) > 0);
    CHECK(sched_getparam(0, &p) == 0 && sched_setparam(0, &p) == 0);
    SAY("policy %d, priority %d, real-time %d to %d", sched_getscheduler(0), p.sched_priority, sched_get_priority_min(SCHED_FIFO), sched_get_priority_max(SCHED_FIFO));
    CHECK(sched_setscheduler(0, SCHED_BATCH, &p) == 0 && sched_getscheduler(0) == SCHED_BATCH);
    struct timespec t;
    CHECK(sched_rr_get_interval(0, &t) == 0);
    uint32_t attributes[14] = {56};
    CHECK(RAW(sched_getattr, 0, attributes, 56, 0) == 0 && attributes[1] == SCHED_BATCH && RAW(sched_setattr, 0, attributes, 0) == 0);
    CHECK(RAW(ioprio_set, 1, 0, (2 << 13) | 6) == 0 && RAW(ioprio_get, 1, 0) == ((2 << 13) | 6));
    FAILS(EINVAL, sched_setscheduler(0, 99, &p));
    SUCCESS();
}
