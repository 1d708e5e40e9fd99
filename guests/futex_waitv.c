// Waiting for one of two locks.
// calls: futex_waitv
#include "guest.h"

static uint32_t words[2];

static void *wake(void *arg) {
    __atomic_store_n(&words[1], 1, __ATOMIC_SEQ_CST);
    RAW(futex, &words[1], 1, 1, NULL, NULL, 0);
    return arg;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t t;
    CHECK(pthread_create(&t, NULL, wake, NULL) == 0);
    struct { uint64_t value, address; uint32_t flags, reserved; } w[2] = {{0, (uint64_t)&words[0], 2, 0}, {0, (uint64_t)&words[1], 2, 0}};
    GUEST_POINT();
    long which = RAW(futex_waitv, w, 2, 0, NULL, 0);
    CHECK(which == 1 || (which == -1 && errno == EAGAIN));
    CHECK(pthread_join(t, NULL) == 0);
    SAY("woken");
    FAILS(EAGAIN, RAW(futex_waitv, w, 2, 0, NULL, 0));
    FAILS(EINVAL, RAW(futex_waitv, w, 0, 0, NULL, 0));
    SUCCESS();
}
