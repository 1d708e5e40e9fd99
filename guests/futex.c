// The call below all locks.
// calls: futex
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int word = 1;
    struct timespec soon = {0, 10000000};
    FAILS(EAGAIN, RAW(futex, &word, 0, 2, NULL, NULL, 0));
    FAILS(ETIMEDOUT, RAW(futex, &word, 0, 1, &soon, NULL, 0));
    GUEST_POINT();
    FAILS(ETIMEDOUT, RAW(futex, &word, 128, 1, &soon, NULL, 0));
    SAY("woken: %ld", RAW(futex, &word, 1, 100, NULL, NULL, 0));
    FAILS(EFAULT, RAW(futex, (int *)8, 0, 0, NULL, NULL, 0));
    FAILS(EINVAL, RAW(futex, (char *)&word + 1, 0, 0, NULL, NULL, 0));
    SUCCESS();
}
