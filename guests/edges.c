// What epoll tells once (EPOLLET, EPOLLONESHOT), told and untold, when its process is moved.
// calls: epoll_create1 epoll_ctl epoll_wait eventfd2 pipe2 timerfd_create
#include "socket.h"

enum { SOCKETS = 5, ALL = 12 };

static int epoll;

static void watch(int fd, uint32_t events, uint64_t name) {
    struct epoll_event v = {events, {.u64 = name}};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &v) == 0);
}

static void again(int fd, uint32_t events, uint64_t name) {
    struct epoll_event v = {events, {.u64 = name}};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &v) == 0);
}

// All that it tells until nothing comes for a while, by name.
static void tell(const char *when, int patience) {
    struct epoll_event v[ALL];
    uint32_t told[ALL] = {0};
    int n;
    while ((n = epoll_wait(epoll, v, ALL, patience)) > 0) {
        for (int i = 0; i < n; i++) told[v[i].data.u64] |= v[i].events;
        patience = 20;
    }
    CHECK(n == 0);
    printf("%s:", when);
    for (int i = 0; i < ALL; i++)
        if (told[i]) printf(" %d%s", i, bits(told[i]));
    puts("");
}

static void put(int fd) {
    uint64_t one = 1;
    CHECK(write(fd, &one, 8) == 8);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int far[SOCKETS], near[SOCKETS], told[2], untold[2], counter = eventfd(0, EFD_NONBLOCK), untold_counter = eventfd(0, EFD_NONBLOCK);
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), late = timerfd_create(CLOCK_MONOTONIC, 0);
    for (int i = 0; i < SOCKETS; i++) tcp_pair(&far[i], &near[i]);
    CHECK(pipe2(told, 0) == 0 && pipe2(untold, 0) == 0 && (epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    struct itimerspec soon = {.it_value.tv_nsec = 1000000}, later = {.it_value.tv_sec = 2};
    CHECK(timerfd_settime(timer, 0, &soon, NULL) == 0);
    watch(near[0], EPOLLIN | EPOLLRDHUP | EPOLLET, 0);
    watch(near[1], EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    watch(near[2], EPOLLIN | EPOLLONESHOT, 2);
    watch(near[3], EPOLLIN | EPOLLET | EPOLLONESHOT, 3);
    watch(near[4], EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, 4);
    watch(told[0], EPOLLIN | EPOLLET, 6);
    watch(untold[0], EPOLLIN | EPOLLET, 7);
    watch(counter, EPOLLIN | EPOLLET, 8);
    watch(untold_counter, EPOLLIN | EPOLLET, 9);
    watch(timer, EPOLLIN | EPOLLET, 10);
    watch(late, EPOLLIN | EPOLLET, 11);
    put(far[0]), put(far[2]), put(far[4]), put(told[1]), put(counter);
    tell("first", 50);
    // Hangs up when it was told of.
    CHECK(shutdown(far[4], SHUT_WR) == 0 && shutdown(near[4], SHUT_WR) == 0);
    put(far[1]), put(far[3]), put(untold[1]), put(untold_counter);
    CHECK(timerfd_settime(late, 0, &later, NULL) == 0);
    fflush(stdout);
    GUEST_POINT();
    tell("untold", 50);
    tell("late", 5000);
    put(far[0]), put(told[1]), put(counter);
    tell("more", 50);
    again(near[2], EPOLLIN | EPOLLONESHOT, 2), again(near[4], EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, 4);
    tell("wanted again", 50);
    tell("none", 20);
    SUCCESS();
}
