// Two threads and a condition.
// calls: futex
#include "guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ball;

static void *answer(void *arg) {
    for (int i = 1; i <= 100; i++) {
        pthread_mutex_lock(&lock);
        while (ball != i) pthread_cond_wait(&changed, &lock);
        ball = -i;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t t;
    CHECK(pthread_create(&t, NULL, answer, NULL) == 0);
    for (int i = 1; i <= 100; i++) {
        pthread_mutex_lock(&lock);
        ball = i;
        pthread_cond_broadcast(&changed);
        while (ball != -i) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        if (i == 50) GUEST_POINT();
    }
    CHECK(pthread_join(t, NULL) == 0);
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 20000000;
    if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
    pthread_mutex_lock(&lock);
    SAY("100 times to and fro; then %s", strerrorname_np(pthread_cond_timedwait(&changed, &lock, &at)));
    SUCCESS();
}
