// Readiness of sockets, by every call that tells it.
// calls: epoll_create1 epoll_ctl epoll_wait epoll_pwait poll ppoll select pselect6 shutdown
#include "socket.h"

static const char *wait_for(int e) {
    struct epoll_event v = {0};
    int n = epoll_wait(e, &v, 1, 3000);
    return n ? bits(v.events) : " none";
}

static const char *now(int e) {
    struct epoll_event v = {0};
    return epoll_wait(e, &v, 1, 0) ? bits(v.events) : " none";
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a, b, level = epoll_create1(0), edge = epoll_create1(EPOLL_CLOEXEC), once = epoll_create1(0);
    char text[64];
    struct sockaddr_in at;
    int s = bound(SOCK_STREAM, &at);
    SAY("listener:%s", bits(ready(s, POLLIN, 0)));
    a = connected(at);
    SAY("listener:%s", bits(ready(s, POLLIN, 3000)));
    b = accept(s, NULL, NULL);
    SAY("listener:%s", bits(ready(s, POLLIN, 0)));
    struct epoll_event v = {EPOLLIN | EPOLLRDHUP, {0}};
    CHECK(epoll_ctl(level, EPOLL_CTL_ADD, b, &v) == 0);
    v.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    CHECK(epoll_ctl(edge, EPOLL_CTL_ADD, b, &v) == 0);
    v.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(once, EPOLL_CTL_ADD, b, &v) == 0);
    SAY("level:%s", now(level));
    CHECK(write(a, "1", 1) == 1);
    GUEST_POINT();
    SAY("level:%s", wait_for(level));
    SAY("level:%s", wait_for(level));
    SAY("edge:%s", wait_for(edge));
    SAY("edge:%s", now(edge));
    SAY("once:%s", wait_for(once));
    CHECK(write(a, "2", 1) == 1);
    SAY("edge:%s", wait_for(edge));
    SAY("once:%s", now(once));
    CHECK(recv(b, text, 64, 0) == 2);
    SAY("level:%s", now(level));
    CHECK(epoll_ctl(once, EPOLL_CTL_MOD, b, &v) == 0);
    SAY("once:%s", now(once));
    CHECK(shutdown(a, SHUT_WR) == 0);
    SAY("level:%s", wait_for(level));
    SAY("poll:%s", bits(ready(b, POLLIN | POLLOUT | POLLRDHUP, 3000)));
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(a, &in);
    FD_SET(b, &in);
    FD_SET(a, &out);
    GUEST_POINT();
    CHECK(select(b + 1, &in, &out, NULL, NULL) == 2 && !FD_ISSET(a, &in) && FD_ISSET(b, &in) && FD_ISSET(a, &out));
    CHECK(close(b) == 0);
    SAY("after close:%s", bits(ready(a, POLLIN | POLLRDHUP, 3000)));
    SAY("level:%s", now(level));
    // Full in one direction, and room again.
    tcp_pair(&a, &b);
    CHECK(fcntl(a, F_SETFL, O_NONBLOCK) == 0);
    static char many[65536];
    // A connection may take more a moment later: full is what stays full.
    do {
        while (write(a, many, sizeof many) > 0)
            ;
        CHECK(errno == EAGAIN);
    } while (ready(a, POLLOUT, 300));
    SAY("full:%s", bits(ready(a, POLLOUT, 0)));
    int pid = fork();
    if (pid == 0) {
        CHECK(close(a) == 0);
        while (read(b, many, sizeof many) > 0)
            ;
        _exit(0);
    }
    CHECK(close(b) == 0);
    SAY("room:%s", bits(ready(a, POLLOUT, 10000)));
    CHECK(close(a) == 0);
    say_end(pid);
    SUCCESS();
}
