// Processes that share memory count in it together: process-shared mutexes (robust ones, too), a barrier, semaphores, futexes, and eventfds and pipes in common.
// argument: how many processes; then a file whose existence ends them. groups.rs runs it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS = 64, PAGE = 4096, CONTENT = 64 * PAGE };
struct shared {
    pthread_mutex_t lock, robust;
    pthread_barrier_t barrier;
    sem_t turns;
    atomic_int end, up;
    long locked, owned, rounds, own[MEMBERS];
};

static void fail(const char *what, int member) {
    fprintf(stderr, "member %d: %s: %s\n", member, what, strerror(errno));
    _exit(1);
}

int main(int argc, char **argv) {
    int members = argc > 1 ? atoi(argv[1]) : 2;
    const char *ends = argc > 2 ? argv[2] : "end";
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int file = memfd_create("content", 0), counter = eventfd(0, 0), ends_of_pipe[2];
    if (s == MAP_FAILED || file < 0 || counter < 0 || ftruncate(file, CONTENT) || pipe(ends_of_pipe)) fail("making what is shared", -1);
    unsigned char *content = mmap(NULL, CONTENT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (content == MAP_FAILED) fail("mapping the content", -1);
    for (int i = 0; i < CONTENT; i++) content[i] = (unsigned char)(i * 31 + i / PAGE);
    pthread_mutexattr_t lock;
    pthread_mutexattr_init(&lock);
    pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->lock, &lock);
    pthread_mutexattr_setrobust(&lock, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->robust, &lock);
    pthread_barrierattr_t barrier;
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&s->barrier, &barrier, (unsigned)members);
    sem_init(&s->turns, 1, 1);
    int member = 0;
    pid_t children[MEMBERS];
    for (int n = 1; n < members; n++) {
        if ((children[n] = fork()) < 0) fail("fork", n);
        if (children[n] == 0) {
            member = n;
            break;
        }
    }
    if (member == 0) {
        printf("up");
        for (int n = 1; n < members; n++) printf(" %d", children[n]);
        printf("\n");
        fflush(stdout);
    }
    atomic_fetch_add(&s->up, 1);
    struct timespec rest = {0, 500000};
    long n = 0;
    for (;; n++) {
        if (pthread_mutex_lock(&s->lock)) fail("lock", member);
        s->locked++;
        pthread_mutex_unlock(&s->lock);
        int owned = pthread_mutex_lock(&s->robust);
        if (owned) fail("robust lock", member);
        s->owned++;
        pthread_mutex_unlock(&s->robust);
        if (sem_wait(&s->turns) && errno != EINTR) fail("sem_wait", member);
        s->own[member]++;
        sem_post(&s->turns);
        // Each looks at a page of the content in turn, and writes one byte that is its own.
        long page = (n + member) % (CONTENT / PAGE);
        unsigned char *at = content + page * PAGE;
        for (int i = MEMBERS; i < PAGE; i++)
            if (at[i] != (unsigned char)((page * PAGE + i) * 31 + page)) fail("content", member);
        at[member] = (unsigned char)n;
        uint64_t one = 1;
        if (write(counter, &one, sizeof one) != sizeof one) fail("eventfd", member);
        char byte = (char)member;
        if (write(ends_of_pipe[1], &byte, 1) != 1 || read(ends_of_pipe[0], &byte, 1) != 1) fail("pipe", member);
        nanosleep(&rest, NULL);
        // All end in the same round, for the barrier counts them.
        int waited = pthread_barrier_wait(&s->barrier);
        if (waited && waited != PTHREAD_BARRIER_SERIAL_THREAD) fail("barrier", member);
        if (member == 0) {
            s->rounds++;
            if (access(ends, F_OK) == 0) atomic_store(&s->end, 1);
        }
        waited = pthread_barrier_wait(&s->barrier);
        if (waited && waited != PTHREAD_BARRIER_SERIAL_THREAD) fail("barrier", member);
        if (atomic_load(&s->end)) break;
    }
    if (member != 0) _exit(n + 1 == s->own[member] ? 0 : 2);
    int wrong = 0, status;
    for (int i = 1; i < members; i++) {
        waitpid(children[i], &status, 0);
        wrong += status != 0;
    }
    uint64_t counted = 0;
    if (read(counter, &counted, sizeof counted) != sizeof counted) fail("eventfd", 0);
    long all = s->rounds * members;
    int right = !wrong && s->locked == all && s->owned == all && (long)counted == all && n + 1 == s->rounds;
    printf(right ? "right\n" : "wrong: %d of %ld locked %ld owned %ld counted %lu\n", wrong, all, s->locked, s->owned, (unsigned long)counted);
    return !right;
}
