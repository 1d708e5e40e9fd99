/* interactive SECONDS: wakes every 20 ms, computes for 1 ms, and prints how long after each waking it
 * had done so: median, the times that 5 and 1 of a hundred exceeded, and the longest, milliseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TIMES_MAX = 100000 };
#define PERIOD_NS 20000000
#define WORK_NS 1000000

static long long read_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static double times[TIMES_MAX];
    int count = 0;
    long long due = read_ns(CLOCK_MONOTONIC), end = due + (argc > 1 ? atoll(argv[1]) : 1) * 1000000000ll;
    while (due < end && count < TIMES_MAX) {
        due += PERIOD_NS;
        struct timespec at = {due / 1000000000, due % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        long long until = read_ns(CLOCK_PROCESS_CPUTIME_ID) + WORK_NS;
        while (read_ns(CLOCK_PROCESS_CPUTIME_ID) < until) {}
        times[count++] = (read_ns(CLOCK_MONOTONIC) - due) / 1e6;
        /* One that is late does not hurry. */
        while (due + PERIOD_NS < read_ns(CLOCK_MONOTONIC)) due += PERIOD_NS;
    }
    qsort(times, count, sizeof *times, by_size);
    printf("%.3f %.3f %.3f %.3f\n", times[count / 2], times[count * 95 / 100], times[count * 99 / 100], times[count - 1]);
    return 0;
}
