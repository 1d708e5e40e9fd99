// What children used, and their children, as told to those who wait for them.
// calls: wait4 waitid getrusage times
#include "guest.h"
#include <sys/times.h>

static double seconds(struct timeval t) {
    return t.tv_sec + t.tv_usec / 1e6;
}

// Works for so many hundredths of a second.
static void work(int ticks) {
    struct rusage now;
    do getrusage(RUSAGE_SELF, &now);
    while (seconds(now.ru_utime) + seconds(now.ru_stime) < ticks / 100.0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct rusage used, all;
    CHECK(getrusage(RUSAGE_CHILDREN, &all) == 0 && seconds(all.ru_utime) < 0.1);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            work(20);
            _exit(0);
        }
        work(10);
        CHECK(wait4(grandchild, NULL, 0, &used) == grandchild && seconds(used.ru_utime) + seconds(used.ru_stime) >= 0.19);
        _exit(0);
    }
    GUEST_POINT();
    siginfo_t info;
    CHECK(RAW(waitid, P_PID, child, &info, WEXITED | WNOWAIT, &used) == 0 && seconds(used.ru_utime) + seconds(used.ru_stime) >= 0.29);
    CHECK(getrusage(RUSAGE_CHILDREN, &all) == 0 && seconds(all.ru_utime) + seconds(all.ru_stime) < 0.1);
    CHECK(wait4(child, NULL, 0, &used) == child);
    SAY("the child used what it and its child did: %s", seconds(used.ru_utime) + seconds(used.ru_stime) >= 0.29 ? "yes" : "no");
    CHECK(getrusage(RUSAGE_CHILDREN, &all) == 0);
    SAY("and so did all children: %s, %s", seconds(all.ru_utime) + seconds(all.ru_stime) >= 0.29 ? "yes" : "no",
        all.ru_maxrss > 100 ? "with memory" : "without");
    struct tms t;
    work(10);
    CHECK(times(&t) != (clock_t)-1);
    SAY("in ticks: %s, itself %s", t.tms_cutime + t.tms_cstime >= 28 ? "yes" : "no", t.tms_utime + t.tms_stime >= 9 ? "yes" : "no");
    child = fork();
    if (child == 0) _exit(0);
    CHECK(waitpid(child, NULL, 0) == child && getrusage(RUSAGE_CHILDREN, &used) == 0);
    SAY("it grows: %s", seconds(used.ru_utime) + seconds(used.ru_stime) >= seconds(all.ru_utime) + seconds(all.ru_stime) ? "yes" : "no");
    SUCCESS();
}
