// A thread that ends with a lock.
// calls: set_robust_list get_robust_list futex
#include "guest.h"

static pthread_mutex_t lock;

static void *die(void *arg) {
    pthread_mutex_lock(&lock);
    return arg;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_mutex_init(&lock, &attributes) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, die, NULL) == 0 && pthread_join(t, NULL) == 0);
    GUEST_POINT();
    CHECK(pthread_mutex_lock(&lock) == EOWNERDEAD && pthread_mutex_consistent(&lock) == 0 && pthread_mutex_unlock(&lock) == 0);
    SAY("the owner died, the lock is usable");
    void *head;
    size_t size;
    CHECK(RAW(get_robust_list, 0, &head, &size) == 0);
    SAY("size %zu", size);
    SUCCESS();
}
