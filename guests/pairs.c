// Pairs of sockets of one process: what waits in them, what they are set to, who waits for them, what has been shut down and closed.
// calls: socketpair shutdown getsockopt setsockopt epoll_ctl epoll_wait
#include "guest.h"

enum { STREAM, DATAGRAM, SEQUENCED, KINDS };
static const int kinds[KINDS] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
static const char *names[KINDS] = {"stream", "datagram", "sequenced"};

static void pair(int kind, int s[2]) {
    CHECK(socketpair(AF_UNIX, kinds[kind], 0, s) == 0);
}

static void put(int fd, const char *text) {
    CHECK(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
}

static void get(const char *what, int fd) {
    char b[64] = {0};
    errno = 0;
    ssize_t n = recv(fd, b, sizeof b - 1, MSG_DONTWAIT);
    SAY("%s: %zd %s%s", what, n, b, n < 0 ? strerrorname_np(errno) : "");
}

static void *reader(void *fd) {
    char b[16] = {0};
    CHECK(recv(*(int *)fd, b, sizeof b, 0) == 5);
    CHECK(strcmp(b, "woken") == 0);
    return NULL;
}

static struct timeval limit = {0, 30000}, minute = {60, 0};

static int option(int fd, int name) {
    int value = 0;
    socklen_t length = sizeof value;
    CHECK(getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0);
    return value;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int full[KINDS][2], shut[KINDS][2], closed[KINDS][2], reset[2], set[2], waited[2], watched[2], empty[2], sent = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        pair(kind, full[kind]), pair(kind, shut[kind]), pair(kind, closed[kind]);
        put(full[kind][0], "one"), put(full[kind][0], "second"), put(full[kind][1], "back");
        put(shut[kind][0], "last"), put(shut[kind][1], "still");
        CHECK(shutdown(shut[kind][0], SHUT_WR) == 0);
        put(closed[kind][0], "left");
        CHECK(close(closed[kind][0]) == 0);
    }
    pair(STREAM, reset), put(reset[1], "unread"), put(reset[0], "left");
    CHECK(close(reset[0]) == 0);
    pair(STREAM, set);
    int bytes = 20000;
    CHECK(setsockopt(set[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
    CHECK(setsockopt(set[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(fcntl(set[1], F_SETFL, O_NONBLOCK) == 0 && fcntl(set[1], F_SETFD, FD_CLOEXEC) == 0);
    bytes = option(set[0], SO_SNDBUF);
    // As much as fits, of which nothing may be missing or come twice.
    pair(STREAM, empty);
    for (unsigned char b[1000];; sent += sizeof b) {
        for (size_t i = 0; i < sizeof b; i++) b[i] = (sent + i) * 7 % 251;
        if (sent >= 60000 || send(empty[0], b, sizeof b, MSG_DONTWAIT) != sizeof b) break;
    }
    CHECK(sent == 60000);
    pair(DATAGRAM, waited), pair(STREAM, watched);
    CHECK(setsockopt(waited[1], SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reader, &waited[1]) == 0);
    int epoll = epoll_create1(0), twin = dup(watched[1]);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x123456789abcdef};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, watched[1], &event) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 0);

    GUEST_POINT();

    for (int kind = 0; kind < KINDS; kind++) {
        SAY("%s %d", names[kind], option(full[kind][0], SO_TYPE) == kinds[kind]);
        get("first", full[kind][1]), get("second", full[kind][1]), get("none", full[kind][1]), get("back", full[kind][0]);
        get("shut", shut[kind][1]), get("shut, end", shut[kind][1]), get("other way", shut[kind][0]);
        put(shut[kind][1], "more"), get("other way, more", shut[kind][0]);
        CHECK(send(shut[kind][0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
        get("closed", closed[kind][1]), get("closed, end", closed[kind][1]);
        errno = 0;
        ssize_t n = send(closed[kind][1], "x", 1, MSG_NOSIGNAL);
        SAY("to nobody: %zd %s", n, strerrorname_np(errno));
    }
    get("reset", reset[1]), get("reset", reset[1]), get("reset", reset[1]);
    char b[16];
    CHECK(recv(set[0], b, 1, 0) == -1 && errno == EAGAIN && recv(set[1], b, 1, 0) == -1 && errno == EAGAIN);
    CHECK(option(set[0], SO_SNDBUF) == bytes);
    SAY("flags %d %d", (fcntl(set[1], F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDWR | O_NONBLOCK), fcntl(set[1], F_GETFD) == FD_CLOEXEC);
    struct ucred made;
    socklen_t length = sizeof made;
    CHECK(getsockopt(set[0], SOL_SOCKET, SO_PEERCRED, &made, &length) == 0);
    SAY("made by this process: %d", made.pid == getpid() && made.uid == getuid());
    for (int i = 0; i < sent; i++) {
        unsigned char c;
        CHECK(recv(empty[1], &c, 1, 0) == 1 && c == i * 7 % 251);
        // One by one the first bytes, then all.
        for (unsigned char rest[4096]; i > 16 && i + 1 < sent;) {
            ssize_t n = recv(empty[1], rest, sizeof rest, 0);
            CHECK(n > 0);
            for (ssize_t k = 0; k < n; k++) CHECK(rest[k] == (++i) * 7 % 251);
        }
    }
    get("all", empty[1]);
    put(waited[0], "woken");
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
    put(watched[0], "seen");
    CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
    SAY("watched: %x %llx", event.events, (long long)event.data.u64);
    get("by the other number", twin);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, watched[1], NULL) == 0);
    SUCCESS();
}
