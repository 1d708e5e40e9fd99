// A thread ends with a lock that lies far from all that it uses then, at once when it has stood still: its memory may follow.
// calls: set_robust_list futex
#include "guest.h"

enum { BYTES = 16 << 20 };

static volatile int has_it, may_end, end_it;

static void *die(void *lock) {
    CHECK(pthread_mutex_lock(lock) == 0);
    has_it = 1;
    for (int64_t last = now_us(CLOCK_MONOTONIC); !end_it; last = now_us(CLOCK_MONOTONIC)) {
        sched_yield();
        if (may_end && now_us(CLOCK_MONOTONIC) - last > 1000) break;
    }
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    uint32_t noise = 1;
    for (size_t at = 0; at < BYTES; at += 4) noise = noise * 1664525 + 1013904223, memcpy(memory + at, &noise, 4);
    pthread_mutex_t *lock = (void *)(memory + BYTES - 4096);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_mutex_init(lock, &attributes) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, die, lock) == 0);
    while (!has_it) sched_yield();
    may_end = 1;
    GUEST_POINT();
    end_it = 1;
    CHECK(pthread_join(t, NULL) == 0);
    CHECK(pthread_mutex_lock(lock) == EOWNERDEAD && pthread_mutex_consistent(lock) == 0 && pthread_mutex_unlock(lock) == 0);
    SAY("the owner died, the lock is usable");
    SUCCESS();
}
