// What is ready when it is first watched, epoll_wait(2) tells at once.
// calls: epoll_ctl epoll_wait poll
#include "guest.h"
#include <netinet/in.h>

static int told(int epoll) {
    struct epoll_event event = {0};
    int found = epoll_wait(epoll, &event, 1, 0);
    CHECK(found >= 0);
    return found ? (int)event.events : 0;
}

static void watch(const char *what, int fd, uint32_t events) {
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = events};
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    SAY("%s: %#x", what, told(epoll));
    CHECK(close(epoll) == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int p[2], q[2];
    CHECK(pipe(p) == 0 && pipe(q) == 0 && write(p[1], "x", 1) == 1);
    // Somebody has the pipes, too: they are home's when this is moved.
    pid_t child = fork();
    if (child == 0) {
        char byte;
        CHECK(close(q[1]) == 0);
        _exit(read(q[0], &byte, 1) == 0 ? 0 : 1);
    }
    int event = eventfd(1, 0);
    GUEST_POINT();
    watch("pipe to read", p[0], EPOLLIN), watch("pipe to write", p[1], EPOLLOUT), watch("edge", p[0], EPOLLIN | EPOLLET);
    watch("event", event, EPOLLIN);
    for (int i = 0; i < 20; i++) {
        int s = socket(AF_INET, SOCK_DGRAM, 0);
        struct epoll_event watched = {.events = EPOLLOUT | EPOLLIN};
        int epoll = epoll_create1(0);
        CHECK(s >= 0 && epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, s, &watched) == 0);
        int found = told(epoll);
        if (found != EPOLLOUT) SAY("socket %d: %#x", i, found);
        CHECK(close(epoll) == 0 && close(s) == 0);
    }
    // A connection that waits, bytes that have come.
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), server;
    CHECK(bind(listener, (struct sockaddr *)&to, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&to, &length) == 0);
    CHECK(connect(client, (struct sockaddr *)&to, length) == 0);
    watch("listener", listener, EPOLLIN);
    CHECK((server = accept(listener, NULL, NULL)) >= 0 && send(client, "x", 1, 0) == 1);
    watch("server", server, EPOLLIN | EPOLLOUT), watch("client", client, EPOLLIN | EPOLLOUT);
    // Changed later, as added.
    struct epoll_event one = {.events = 0};
    int epoll = epoll_create1(0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, server, &one) == 0);
    SAY("nothing asked: %#x", told(epoll));
    one.events = EPOLLIN;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, server, &one) == 0);
    SAY("asked then: %#x", told(epoll));
    struct pollfd polled = {.fd = client, .events = POLLOUT};
    SAY("polled: %d %#x", poll(&polled, 1, 0), polled.revents);
    int status;
    CHECK(close(q[1]) == 0 && waitpid(child, &status, 0) == child && status == 0);
    SUCCESS();
}
