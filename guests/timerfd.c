// Timers as files, relative and absolute.
// calls: timerfd_create timerfd_settime timerfd_gettime
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    uint64_t n;
    FAILS(EAGAIN, read(fd, &n, 8));
    struct itimerspec t = {.it_value = {0, 2000000}, .it_interval = {0, 2000000}}, left;
    CHECK(timerfd_settime(fd, 0, &t, NULL) == 0);
    GUEST_POINT();
    struct pollfd p = {fd, POLLIN, 0};
    CHECK(poll(&p, 1, 10000) == 1 && read(fd, &n, 8) == 8 && n >= 1);
    CHECK(timerfd_gettime(fd, &left) == 0 && left.it_interval.tv_nsec == 2000000);
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    struct itimerspec at = {.it_value = {now.tv_sec, now.tv_nsec}};
    CHECK(timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
    CHECK(poll(&p, 1, 10000) == 1 && read(fd, &n, 8) == 8);
    SAY("ran %s", n == 1 ? "once" : "more than once");
    SUCCESS();
}
