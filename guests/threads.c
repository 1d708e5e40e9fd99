// Eight threads and a lock.
// calls: clone set_tid_address set_robust_list futex exit gettid
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static __thread long mine;

static void *work(void *arg) {
    CHECK(gettid() != getpid() && getpid() > 0);
    for (int i = 0; i < 1000; i++) {
        CHECK(pthread_mutex_lock(&lock) == 0);
        total += mine = (long)arg;
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
    return (void *)(mine * mine);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t t[8];
    for (long i = 0; i < 8; i++) CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    GUEST_POINT();
    long sum = 0;
    for (int i = 0; i < 8; i++) {
        void *result;
        CHECK(pthread_join(t[i], &result) == 0);
        sum += (long)result;
    }
    SAY("sum %ld, total %ld", sum, total);
    CHECK(RAW(set_tid_address, NULL) == getpid());
    SUCCESS();
}
