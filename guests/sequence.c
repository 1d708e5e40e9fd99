// A restartable sequence begins anew when another thread has run on its processor meanwhile, wherever the process is moved to in between.
// calls: rseq
#include "guest.h"
#include <sys/rseq.h>

enum { ROUNDS = 3 };

// What the other thread changes while a sequence waits for `end`.
static volatile int generation, end, torn, committed;
static volatile long aborted;

// Waits in a sequence until `end`, and commits which generation it was then; the one in which it began.
static int in_sequence(struct rseq *area) {
    int began, seen = -1;
    for (;;) {
        began = generation;
        __asm__ goto(
            ".pushsection __rseq_cs, \"aw\"\n"
            ".balign 32\n"
            "1: .long 0, 0\n"
            ".quad 2f, 3f - 2f, 4f\n"
            ".popsection\n"
            "leaq 1b(%%rip), %%rax\n"
            "movq %%rax, %[current]\n"
            "2: cmpl $0, %[end]\n"
            "je 2b\n"
            "movl %[generation], %%eax\n"
            "movl %%eax, %[committed]\n"
            "3:\n"
            ".pushsection __rseq_abort, \"ax\"\n"
            // ud1 with the signature, as where glibc registers it (sys/rseq.h).
            ".byte 0x0f, 0xb9, 0x3d\n"
            ".long 0x53053053\n"
            "4: jmp %l[abort]\n"
            ".popsection\n"
            :
            : [current] "m"(area->rseq_cs), [end] "m"(end), [generation] "m"(generation), [committed] "m"(committed)
            : "rax", "memory", "cc"
            : abort);
        seen = committed;
        break;
    abort:
        aborted++;
    }
    if (seen != began) torn++;
    return seen;
}

static void *waits(void *unused) {
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (int round = 1; round <= ROUNDS; round++) {
        CHECK(in_sequence(area) == round);
        end = 0;
    }
    return unused;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    cpu_set_t set, one;
    CHECK(__rseq_size > 0);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &set)) CPU_SET(i, &one);
    // Of two threads on one processor, each that runs has interrupted the other.
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, waits, NULL) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        struct timespec moment = {0, 5000000};
        CHECK(nanosleep(&moment, NULL) == 0);
        if (round == 2) GUEST_POINT();
        generation = round;
        end = 1;
        while (end) sched_yield();
    }
    CHECK(pthread_join(other, NULL) == 0);
    SAY("%d rounds, aborted: %s, torn: %d", ROUNDS, aborted > 0 ? "yes" : "no", torn);
    SUCCESS();
}
