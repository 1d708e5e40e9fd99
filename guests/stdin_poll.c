// Waits for its standard input before each read.
// calls: poll epoll_ctl read
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct pollfd p = {0, POLLIN, 0};
    int e = epoll_create1(0);
    struct epoll_event ev = {EPOLLIN, {.fd = 0}};
    int added = epoll_ctl(e, EPOLL_CTL_ADD, 0, &ev);
    SAY("epoll takes it: %s", added == 0 ? "yes" : strerrorname_np(errno));
    long total = 0;
    char b[5000];
    for (;;) {
        CHECK(poll(&p, 1, 60000) == 1 && (p.revents & (POLLIN | POLLHUP)));
        if (added == 0) CHECK(epoll_wait(e, &ev, 1, 60000) == 1);
        ssize_t n = read(0, b, sizeof b);
        CHECK(n >= 0);
        if (n == 0) break;
        total += n;
        GUEST_POINT();
    }
    SAY("%ld bytes", total);
    SUCCESS();
}
