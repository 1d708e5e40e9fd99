// What comes while a process that waits for edges (EPOLLET) is moved is told to it.
// calls: epoll_create1 epoll_ctl epoll_wait fork
#include "socket.h"

enum { MESSAGES = 1200 };

static _Noreturn void send_all(int socket, int pipe) {
    unsigned draw = 1;
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(write(socket, "s", 1) == 1);
        if (i % 3 == 0) CHECK(write(pipe, "p", 1) == 1);
        draw = draw * 1103515245 + 12345;
        struct timespec moment = {0, (draw >> 16) % 400000};
        nanosleep(&moment, NULL);
    }
    _exit(0);
}

static int take_all(int fd) {
    char text[64];
    ssize_t n;
    int all = 0;
    while ((n = read(fd, text, sizeof text)) > 0) all += n;
    CHECK(n == -1 && errno == EAGAIN);
    return all;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a, b, p[2], epoll = epoll_create1(0), sent = 0, piped = 0, moved = 0;
    tcp_pair(&a, &b);
    CHECK(pipe2(p, O_NONBLOCK) == 0 && fcntl(b, F_SETFL, O_NONBLOCK) == 0);
    int child = fork();
    if (child == 0) close(b), close(p[0]), close(epoll), send_all(a, p[1]);
    struct epoll_event socket = {EPOLLIN | EPOLLET, {.fd = b}}, pipe = {EPOLLIN | EPOLLET, {.fd = p[0]}}, v;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, b, &socket) == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, p[0], &pipe) == 0);
    while (sent < MESSAGES || piped < MESSAGES / 3) {
        CHECK(epoll_wait(epoll, &v, 1, 20000) == 1 && v.events == EPOLLIN);
        if (v.data.fd == b) sent += take_all(b);
        else piped += take_all(p[0]);
        if (sent > MESSAGES / 2 && !moved++) GUEST_POINT();
    }
    SAY("%d and %d", sent, piped);
    say_end(child);
    SUCCESS();
}
