// Pairs of sockets and pipes that a process has in common with its children, who wait for them and watch them.
// calls: socketpair epoll_ctl epoll_wait fork
#include "guest.h"

enum { CHILDREN = 3 };

// Answers each message with its letters turned, by the pair; says how long it was by the pipe.
static _Noreturn void serve(int kind, int pair, int pipe, bool watches) {
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77};
    if (watches) CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair, &event) == 0);
    for (;;) {
        char b[64], turned[64];
        if (watches) CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u64 == 77);
        ssize_t n = recv(pair, b, sizeof b, 0);
        CHECK(n >= 0);
        if (n == 0 || (kind == SOCK_DGRAM && b[0] == '.')) _exit(7);
        for (ssize_t i = 0; i < n; i++) turned[i] = b[n - 1 - i];
        unsigned char length = n;
        CHECK(write(pipe, &length, 1) == 1 && send(pair, turned, n, 0) == n);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const int kinds[CHILDREN] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    int pairs[CHILDREN], pipes[CHILDREN], children[CHILDREN], epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CHILDREN; i++) {
        int s[2], p[2];
        CHECK(socketpair(AF_UNIX, kinds[i], 0, s) == 0 && pipe(p) == 0);
        fflush(stdout);
        if ((children[i] = fork()) == 0) {
            for (int k = 0; k < i; k++) close(pairs[k]), close(pipes[k]);
            close(s[0]), close(p[0]), close(epoll);
            serve(kinds[i], s[1], p[1], i != 1);
        }
        close(s[1]), close(p[1]);
        pairs[i] = s[0], pipes[i] = p[0];
        struct epoll_event a = {.events = EPOLLIN, .data.u64 = i}, b = {.events = EPOLLIN, .data.u64 = 10 + i};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, s[0], &a) == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, p[0], &b) == 0);
    }
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < CHILDREN; i++) {
            char b[64];
            snprintf(b, sizeof b, "round %d of %d", round, i);
            CHECK(send(pairs[i], b, strlen(b), 0) == (ssize_t)strlen(b));
        }
        if (round == 10) GUEST_POINT();
        for (int left = 2 * CHILDREN; left > 0; left--) {
            struct epoll_event event;
            CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
            int i = event.data.u64;
            char b[64] = {0}, wanted[64];
            snprintf(wanted, sizeof wanted, "round %d of %d", round, i % 10);
            ssize_t length = strlen(wanted);
            if (i < 10) {
                CHECK(recv(pairs[i], b, sizeof b, 0) == length);
                for (ssize_t k = 0; k < length; k++) CHECK(b[k] == wanted[length - 1 - k]);
            } else {
                CHECK(read(pipes[i - 10], b, 1) == 1 && b[0] == length);
            }
        }
    }
    CHECK(send(pairs[1], ".", 1, 0) == 1);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        CHECK(close(pairs[i]) == 0 && waitpid(children[i], &status, 0) == children[i]);
        SAY("child %d: %d", i, WEXITSTATUS(status));
        CHECK(WIFEXITED(status));
    }
    SUCCESS();
}
