// Descriptors of children that end: as soon as anything tells of the end, poll and epoll know of it, too.
// calls: pidfd_open poll epoll_wait waitid
#include "guest.h"

static int ready(int epoll, int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    struct epoll_event event;
    int polled = poll(&p, 1, 0), told = epoll_wait(epoll, &event, 1, 0);
    CHECK(polled >= 0 && told >= 0 && (polled == 0 || p.revents == POLLIN));
    return polled + told;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int rounds = 0;
    for (int round = 0; round < 30; round++) {
        int go[2], epoll = epoll_create1(0);
        CHECK(pipe(go) == 0);
        pid_t child = fork();
        if (child == 0) {
            char byte;
            _exit(read(go[0], &byte, 1) == 1 ? round : 99);
        }
        int fd = RAW(pidfd_open, child, 0);
        struct epoll_event event = {.events = EPOLLIN | (round % 3 == 2 ? EPOLLET : 0)};
        CHECK(fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 && ready(epoll, fd) == 0);
        if (round == 0)
            GUEST_POINT();
        siginfo_t info = {0};
        struct pollfd p = {fd, POLLIN, 0};
        CHECK(write(go[1], "x", 1) == 1);
        switch (round % 3) {
        case 0: CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0); break;
        case 1: CHECK(poll(&p, 1, -1) == 1); break;
        case 2: CHECK(waitid(P_PIDFD, fd, &info, WEXITED | WNOWAIT) == 0); break;
        }
        CHECK(ready(epoll, fd) == 2);
        CHECK(waitid(P_PIDFD, fd, &info, WEXITED) == 0 && info.si_pid == child && info.si_status == round);
        CHECK(close(fd) == 0 && close(epoll) == 0 && close(go[0]) == 0 && close(go[1]) == 0);
        rounds++;
    }
    SAY("%d ended", rounds);
    SUCCESS();
}
