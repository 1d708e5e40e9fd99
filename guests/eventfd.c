// Counters as files.
// calls: eventfd eventfd2
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
    uint64_t n = 4;
    CHECK(write(fd, &n, 8) == 8);
    GUEST_POINT();
    CHECK(read(fd, &n, 8) == 8);
    SAY("%lu", (long)n);
    FAILS(EAGAIN, read(fd, &n, 8));
    int s = RAW(eventfd2, 2, EFD_SEMAPHORE);
    CHECK(read(s, &n, 8) == 8 && n == 1 && read(s, &n, 8) == 8 && n == 1);
    int old = RAW(eventfd, 1);
    CHECK(read(old, &n, 8) == 8 && n == 1);
    FAILS(EINVAL, read(old, &n, 4));
    SUCCESS();
}
