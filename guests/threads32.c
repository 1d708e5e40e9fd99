// 32 threads at once, ten times.
// calls: clone3 clone futex sched_yield
#include "guest.h"

static pthread_barrier_t barrier;
static int all, now, most;

static void *work(void *arg) {
    int n = __atomic_add_fetch(&now, 1, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&barrier);
    if (n == 32) most = n;
    sched_yield();
    __atomic_add_fetch(&all, 1, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&barrier);
    __atomic_sub_fetch(&now, 1, __ATOMIC_SEQ_CST);
    return arg;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t t[32];
    CHECK(pthread_barrier_init(&barrier, NULL, 32) == 0);
    for (int round = 0; round < 10; round++) {
        for (long i = 0; i < 32; i++) CHECK(pthread_create(&t[i], NULL, work, NULL) == 0);
        if (round == 5) GUEST_POINT();
        for (int i = 0; i < 32; i++) CHECK(pthread_join(t[i], NULL) == 0);
    }
    SAY("%d in all, %d at once", __atomic_load_n(&all, __ATOMIC_SEQ_CST), most);
    SUCCESS();
}
