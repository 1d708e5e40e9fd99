// Signals that are ignored by default end no call; blocked, they wait as any other.
// calls: rt_sigtimedwait epoll_wait kill
#include "guest.h"

/// A child that dies, another that sends what is ignored, and in the end `last`.
static void disturb(int last) {
    int parent = getpid();
    if (fork() == 0)
        usleep(500), _exit(0);
    if (fork() == 0) {
        usleep(1500);
        kill(parent, SIGURG), kill(parent, SIGWINCH);
        usleep(500);
        kill(parent, last);
        _exit(0);
    }
}

static volatile int handled;

static void handler(int signal) { handled = signal; }

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t usr1, chld;
    sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
    sigemptyset(&chld), sigaddset(&chld, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &usr1, NULL) == 0);
    GUEST_POINT();
    for (int i = 0; i < 10; i++) {
        disturb(SIGUSR1);
        CHECK(RAW(rt_sigtimedwait, &usr1, NULL, NULL, 8) == SIGUSR1);
        CHECK(wait(NULL) > 0 && wait(NULL) > 0);
    }
    struct sigaction act = {.sa_handler = handler};
    struct epoll_event event;
    int epoll = epoll_create1(0);
    CHECK(sigaction(SIGUSR2, &act, NULL) == 0);
    for (int i = 0; i < 10; i++) {
        disturb(SIGUSR2);
        FAILS(EINTR, epoll_wait(epoll, &event, 1, -1));
        CHECK(handled == SIGUSR2);
        handled = 0;
        CHECK(wait(NULL) > 0 && wait(NULL) > 0);
    }
    // What is blocked is not ignored, also while it is waited for.
    CHECK(sigprocmask(SIG_BLOCK, &chld, NULL) == 0);
    for (int i = 0; i < 10; i++) {
        if (fork() == 0)
            usleep(i * 300), _exit(0);
        CHECK(RAW(rt_sigtimedwait, &chld, NULL, NULL, 8) == SIGCHLD && wait(NULL) > 0);
    }
    SUCCESS();
}
