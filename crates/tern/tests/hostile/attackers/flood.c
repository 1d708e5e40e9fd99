// Floods its own room and its home: signals, calls that home runs, children, writes to a stand-in. And what another user measures meanwhile.
//
// `flood guest SECONDS`: placed; sixteen children do it for so long. `flood home PID SECONDS`: at home; sends PID signals for so long.
// `flood measure COUNT`: placed; prints the 99th percentile and the greatest of so many times of a call that home runs, microseconds.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN = 16 };

static long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void take(int signal) { (void)signal; }

static void send_queued(pid_t to, int value) {
    union sigval v = {.sival_int = value};
    sigqueue(to, SIGRTMIN + 3, v);
}

// Each does what its number says, again and again.
static void child(int number, pid_t parent, long until) {
    static char block[4096];
    for (int i = 0; now_us() < until; i++) switch (number % 5) {
            case 0: kill(parent, SIGUSR1); break;
            case 1: send_queued(parent, i); break;
            case 2: syscall(SYS_getppid); break;
            case 3:
                if (write(1, block, sizeof block) < 0) return;
                break;
            case 4: {
                pid_t pid = fork();
                if (pid == 0) _exit(0);
                if (pid > 0) waitpid(pid, NULL, 0);
            }
        }
}

static int guest(long seconds) {
    long until = now_us() + seconds * 1000000;
    signal(SIGUSR1, take);
    // Real-time signals pile up where they are blocked. Of standard ones each waits once.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fprintf(stderr, "floods\n");
    for (int i = 0; i < CHILDREN; i++)
        if (fork() == 0) {
            child(i, getppid(), until);
            _exit(0);
        }
    while (now_us() < until) pause();
    for (int i = 0; i < CHILDREN; i++)
        while (wait(NULL) < 0);
    return 0;
}

static int home(pid_t pid, long seconds) {
    long until = now_us() + seconds * 1000000;
    for (int i = 0; now_us() < until; i++) {
        kill(pid, SIGUSR1);
        kill(pid, SIGUSR2);
        send_queued(pid, i);
    }
    return 0;
}

static int in_order(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static int measure(int count) {
    long *took = calloc(count, sizeof *took);
    for (int i = 0; i < count; i++) {
        long begun = now_us();
        syscall(SYS_getppid);
        took[i] = now_us() - begun;
        usleep(1000);
    }
    qsort(took, count, sizeof *took, in_order);
    printf("%ld %ld\n", took[count * 99 / 100], took[count - 1]);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "guest")) return guest(atol(argv[2]));
    if (argc == 4 && !strcmp(argv[1], "home")) return home(atoi(argv[2]), atol(argv[3]));
    if (argc == 3 && !strcmp(argv[1], "measure")) return measure(atoi(argv[2]));
    return 2;
}
