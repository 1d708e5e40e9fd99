// Settings of a thread that few programs make: its clock counter, broken memory, speculation.
// calls: prctl arch_prctl
#include "guest.h"

enum { SPECULATION_PRCTL = 1, SPECULATION_DISABLE = 4 };

static pthread_barrier_t turn;
static int has_counter, speculates;

static void say(const char *who) {
    int counter = 0;
    CHECK(!has_counter || prctl(PR_GET_TSC, &counter) == 0);
    SAY("%s: counter %d, broken memory %d", who, counter, prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
}

static void *other(void *unused) {
    CHECK(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_LATE, 0, 0) == 0);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    say("a thread");
    return unused;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t thread;
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0 && pthread_create(&thread, NULL, other, NULL) == 0);
    pthread_barrier_wait(&turn);
    CHECK(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0);
    has_counter = prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0;
    // Where the processor needs it, and a program may choose.
    int store = prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0);
    if (store > 0 && store & SPECULATION_PRCTL)
        speculates = prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, SPECULATION_DISABLE, 0, 0) == 0;
    uint64_t features = 0;
    CHECK(RAW(arch_prctl, 0x1022, &features) == 0 || errno == EINVAL || errno == ENODEV);
    GUEST_POINT();
    say("as it was set");
    store = prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0);
    CHECK(!speculates || store == (SPECULATION_PRCTL | SPECULATION_DISABLE));
    uint64_t then = 0;
    CHECK((RAW(arch_prctl, 0x1022, &then) == 0 || errno == EINVAL || errno == ENODEV) && then == features);
    if (has_counter) CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    pthread_barrier_wait(&turn);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(prctl(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 0, 0, 0) == 0);
    say("no more");
    SUCCESS();
}
