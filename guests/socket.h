// What the guests about sockets share. Port numbers are the kernel's choice, and never said.
#ifndef SOCKET_H
#define SOCKET_H
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

static inline struct sockaddr_in loopback(void) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

// A socket on a loopback address, listening if it is a stream's; its address.
static inline int bound(int type, struct sockaddr_in *at) {
    int s = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof *at;
    *at = loopback();
    CHECK(s >= 0 && bind(s, (void *)at, sizeof *at) == 0);
    CHECK(getsockname(s, (void *)at, &bytes) == 0 && bytes == sizeof *at && at->sin_port != 0);
    CHECK(type != SOCK_STREAM || listen(s, 16) == 0);
    return s;
}

static inline int connected(struct sockaddr_in at) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(s >= 0 && connect(s, (void *)&at, sizeof at) == 0);
    return s;
}

// Both ends of a TCP connection.
static inline void tcp_pair(int *a, int *b) {
    struct sockaddr_in at;
    int s = bound(SOCK_STREAM, &at);
    *a = connected(at);
    *b = accept(s, NULL, NULL);
    CHECK(*b >= 0 && close(s) == 0);
}

// The flags of an open file that mean something for a socket.
static inline int flags(int fd) { return fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_ASYNC | O_APPEND); }

// Waits for readiness: what came.
static inline int ready(int fd, int events, int timeout_ms) {
    struct pollfd p = {fd, events, 0};
    CHECK(poll(&p, 1, timeout_ms) >= 0);
    return p.revents;
}

static inline const char *bits(int revents) {
    static char text[64];
    snprintf(text, sizeof text, "%s%s%s%s%s%s", revents & POLLIN ? " IN" : "", revents & POLLOUT ? " OUT" : "", revents & POLLPRI ? " PRI" : "",
             revents & POLLRDHUP ? " RDHUP" : "", revents & POLLHUP ? " HUP" : "", revents & POLLERR ? " ERR" : "");
    return text;
}

static inline void say_end(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("child: %s %d", WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}
#endif
