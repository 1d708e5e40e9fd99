// Scheduling: what may be asked and set, of oneself, of a child, of others.
// calls: sched_setscheduler sched_getscheduler sched_setparam sched_getparam sched_setattr sched_getattr sched_setaffinity sched_getaffinity sched_rr_get_interval setpriority getpriority ioprio_set ioprio_get
#include "guest.h"

enum { RESET = 0x40000000, NOBODY = 0x3ffffff0, IDLE_CLASS = 3 << 13, BEST_EFFORT = 2 << 13 };

struct attributes { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; uint32_t min, max; };

static const char *is(long result) {
    return result < 0 ? strerrorname_np(errno) : "done";
}

static int policy(pid_t pid) {
    int found = sched_getscheduler(pid);
    return found < 0 ? -errno : found;
}

static int nice_of(pid_t pid) {
    errno = 0;
    int found = getpriority(PRIO_PROCESS, pid);
    return errno ? -100 - errno : found;
}

static void did(const char *whom, const char *what, long result) {
    SAY("%s: %s: %s", whom, what, result < 0 ? strerrorname_np(errno) : "done");
}

static void has(const char *whom, pid_t pid) {
    struct attributes a = {0};
    struct sched_param p = {9};
    CHECK(sched_getparam(pid, &p) == 0 && RAW(sched_getattr, pid, &a, sizeof a, 0) == 0);
    SAY("%s: policy %#x %u, priority %d %u, nice %d %d, input %#lx", whom, policy(pid), a.policy, p.sched_priority, a.priority, nice_of(pid), a.nice,
        RAW(ioprio_get, 1, pid));
}

static void walk(const char *whom, pid_t pid) {
    struct sched_param p = {0}, real_time = {1};
    struct attributes a = {.size = 56};
    struct timespec t;
    cpu_set_t all, one;
    has(whom, pid);
    did(whom, "batch", sched_setscheduler(pid, SCHED_BATCH, &p)), has(whom, pid);
    did(whom, "a priority that it has not", sched_setparam(pid, &real_time));
    did(whom, "parameters", sched_setparam(pid, &p));
    a.nice = nice_of(pid);
    did(whom, "attributes", RAW(sched_setattr, pid, &a, 0)), has(whom, pid);
    a.policy = 77;
    did(whom, "no such policy", RAW(sched_setattr, pid, &a, 0));
    did(whom, "nicer", setpriority(PRIO_PROCESS, pid, 5)), has(whom, pid);
    a = (struct attributes){.size = 56, .policy = SCHED_OTHER, .nice = 7};
    did(whom, "nicer by attributes", RAW(sched_setattr, pid, &a, 0)), has(whom, pid);
    CHECK(sched_getaffinity(pid, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    did(whom, "one processor", sched_setaffinity(pid, sizeof one, &one));
    CHECK(sched_getaffinity(pid, sizeof one, &one) == 0);
    SAY("%s: processors: %d", whom, CPU_COUNT(&one));
    CPU_ZERO(&one);
    did(whom, "no processor", sched_setaffinity(pid, sizeof one, &one));
    CHECK(sched_setaffinity(pid, sizeof all, &all) == 0);
    did(whom, "interval", sched_rr_get_interval(pid, &t));
    did(whom, "idle input", RAW(ioprio_set, 1, pid, IDLE_CLASS)), has(whom, pid);
    did(whom, "best effort", RAW(ioprio_set, 1, pid, BEST_EFFORT | 6)), has(whom, pid);
    did(whom, "no such class", RAW(ioprio_set, 1, pid, 7 << 13));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int go[2], status;
    char byte;
    struct sched_param p = {0};
    CHECK(pipe(go) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(go[1]);
        CHECK(read(go[0], &byte, 1) == 0);
        SAY("child sees: policy %d, nice %d, input %#lx", policy(0), nice_of(0), RAW(ioprio_get, 1, 0));
        CHECK(!fflush(stdout));
        _exit(0);
    }
    CHECK(sched_setscheduler(0, SCHED_BATCH | RESET, &p) == 0 && nice(3) == 3);
    SAY("reset at fork: %#x", policy(0));
    GUEST_POINT();
    SAY("after: %#x, nice %d", policy(0), nice_of(0));
    CHECK(sched_setscheduler(0, SCHED_OTHER, &p) == 0 || errno == EPERM);
    walk("itself", 0);
    walk("by number", getpid());
    walk("child", child);
    SAY("nobody: %d, %s, %s, %d, %s", policy(NOBODY), is(sched_setscheduler(NOBODY, SCHED_BATCH, &p)), is(RAW(sched_getattr, NOBODY, &p, 48, 0)), nice_of(NOBODY), is(RAW(ioprio_get, 1, NOBODY)));
    SAY("negative: %d, %s", policy(-1), is(sched_setscheduler(-1, SCHED_BATCH, &p)));
    cpu_set_t set;
    SAY("nobody's processors: %s", is(sched_getaffinity(NOBODY, sizeof set, &set)));
    // A process at home that is none of its own.
    SAY("at home: policy %d, nice %d, processors %s, attributes %s, input %d", policy(1), nice_of(1), is(sched_getaffinity(1, sizeof set, &set)),
        is(RAW(sched_getattr, 1, &(struct attributes){0}, 56, 0)), (int)RAW(ioprio_get, 1, 1) >= 0);
    if (geteuid() == 0) {
        CHECK(!fflush(stdout));
        pid_t other = fork();
        CHECK(other >= 0);
        if (other == 0) {
            CHECK(setgid(54321) == 0 && setuid(54321) == 0);
            CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
            SAY("another user: %s %s %s %s", is(sched_setscheduler(1, SCHED_BATCH, &p)), is(sched_setaffinity(1, sizeof set, &set)), is(RAW(ioprio_set, 1, 1, BEST_EFFORT | 7)), is(setpriority(PRIO_PROCESS, 1, 19)));
            SAY("and its own: %s, less nice: %s", is(sched_setscheduler(0, SCHED_IDLE, &p)), is(setpriority(PRIO_PROCESS, 0, 0)));
            SAY("its parent's: %s %s", is(sched_setscheduler(getppid(), SCHED_BATCH, &p)), is(setpriority(PRIO_PROCESS, getppid(), 19)));
            CHECK(!fflush(stdout));
            _exit(0);
        }
        CHECK(waitpid(other, &status, 0) == other);
    }
    CHECK(!fflush(stdout) && close(go[1]) == 0 && waitpid(child, &status, 0) == child && status == 0);
    // No node schedules its guests in real time: whoever may be is at home from then on.
    struct sched_param first = {1};
    did("real time", "first in, first out", sched_setscheduler(0, SCHED_FIFO, &first)), has("real time", 0);
    did("real time", "no more", sched_setscheduler(0, SCHED_OTHER, &p)), has("real time", 0);
    SUCCESS();
}
