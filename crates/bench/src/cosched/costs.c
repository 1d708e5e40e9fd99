/* costs TASKS: what a switch between two processes of one processor takes, and what it takes to signal
 * so many processes: W and S_sig of the paper's equations 1 to 4, microseconds. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20000, SIGNALS = 200, TASKS_MAX = 256 };

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Half of a way there and back: one process is suspended, and the other one wakes. */
static double hand_over_us(void) {
    int there[2], back[2];
    char byte = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (pipe(there) || pipe(back) || sched_setaffinity(0, sizeof one, &one)) exit(1);
    pid_t other = fork();
    if (!other) {
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {}
        _exit(0);
    }
    double begun = now_us();
    for (int n = 0; n < ROUNDS; n++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) exit(1);
    double took = now_us() - begun;
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return took / ROUNDS / 2;
}

static double signal_us(int tasks) {
    static pid_t all[TASKS_MAX];
    for (int n = 0; n < tasks; n++) {
        all[n] = fork();
        if (!all[n]) for (;;) pause();
    }
    double begun = now_us();
    for (int n = 0; n < SIGNALS; n++)
        for (int task = 0; task < tasks; task++) kill(all[task], n & 1 ? SIGCONT : SIGSTOP);
    double took = now_us() - begun;
    for (int task = 0; task < tasks; task++) kill(all[task], SIGKILL);
    while (wait(NULL) > 0) {}
    return took / SIGNALS;
}

int main(int argc, char **argv) {
    int tasks = argc > 1 ? atoi(argv[1]) : 1;
    if (tasks < 1 || tasks > TASKS_MAX) return 2;
    double signals = signal_us(tasks);
    printf("%.3f %.3f\n", hand_over_us() / 2, signals);
    return 0;
}
