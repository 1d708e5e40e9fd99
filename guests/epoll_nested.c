// An epoll instance inside another one, with files whose state is elsewhere: a listener, a connection, a pipe's end.
// calls: epoll_create1 epoll_ctl epoll_wait
#include "socket.h"

static const char *wait_for(int e) {
    struct epoll_event v = {0};
    int n = epoll_wait(e, &v, 1, 10000);
    return n ? bits(v.events) : " none";
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int outer = epoll_create1(0), inner = epoll_create1(0);
    struct sockaddr_in at;
    struct epoll_event v = {EPOLLIN, {0}};
    CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &v) == 0);
    int s = bound(SOCK_STREAM, &at);
    CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, s, &v) == 0);
    GUEST_POINT();
    int a = connected(at);
    SAY("outer:%s", wait_for(outer));
    SAY("inner:%s", wait_for(inner));
    int b = accept(s, NULL, NULL);
    CHECK(b >= 0);
    CHECK(epoll_ctl(inner, EPOLL_CTL_DEL, s, NULL) == 0);
    CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, b, &v) == 0);
    CHECK(write(a, "1", 1) == 1);
    SAY("outer:%s", wait_for(outer));
    // What is there already when it is added.
    CHECK(epoll_ctl(inner, EPOLL_CTL_DEL, b, NULL) == 0);
    CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, b, &v) == 0);
    SAY("outer:%s", wait_for(outer));
    GUEST_POINT();
    char text[8];
    CHECK(read(b, text, 8) == 1);
    CHECK(close(a) == 0);
    SAY("inner:%s", wait_for(inner));
    // A circle is refused.
    SAY("circle: %d", epoll_ctl(inner, EPOLL_CTL_ADD, outer, &v) == -1 && errno == ELOOP);
    SUCCESS();
}
