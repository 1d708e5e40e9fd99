// epoll in its modes.
// calls: epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int e = epoll_create1(EPOLL_CLOEXEC), p[2], v = eventfd(0, 0);
    CHECK(pipe(p) == 0 && RAW(epoll_create, 5) > 0);
    struct epoll_event in = {EPOLLIN, {.u64 = 1}}, edge = {EPOLLIN | EPOLLET, {.u64 = 2}}, out[4];
    CHECK(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &in) == 0 && epoll_ctl(e, EPOLL_CTL_ADD, v, &edge) == 0);
    SAY("none: %d", epoll_wait(e, out, 4, 0));
    uint64_t one = 1;
    CHECK(write(p[1], "x", 1) == 1 && write(v, &one, 8) == 8);
    GUEST_POINT();
    SAY("both: %d", epoll_pwait(e, out, 4, 1000, NULL));
    int ready = epoll_wait(e, out, 4, 0);
    SAY("level only: %d, %d", ready, (int)out[0].data.u64);
    CHECK(write(v, &one, 8) == 8);
    SAY("edge again: %d", epoll_wait(e, out, 4, 0));
    in.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(e, EPOLL_CTL_MOD, p[0], &in) == 0 && epoll_wait(e, out, 4, 0) == 1 && epoll_wait(e, out, 4, 0) == 0);
    CHECK(epoll_ctl(e, EPOLL_CTL_DEL, p[0], NULL) == 0);
    FAILS(ENOENT, epoll_ctl(e, EPOLL_CTL_DEL, p[0], NULL));
    FAILS(EPERM, epoll_ctl(e, EPOLL_CTL_ADD, open("f", O_CREAT | O_RDONLY, 0600), &in));
    struct timespec soon = {0, 1000000};
    CHECK(RAW(epoll_pwait2, e, out, 4, &soon, NULL, 0) == 0);
    SUCCESS();
}
