// Calls on sockets that signals interrupt, time out, or end.
// calls: rt_sigaction recvfrom accept connect sendto setsockopt
#include "socket.h"

static volatile int seen;

static void handler(int signal) { seen += signal == SIGALRM; }

// Again and again: on a busy machine the first may come before the call that it is to interrupt.
static void every_ms(int ms) {
    struct itimerval t = {{0, 1000 * ms}, {0, 1000 * ms}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

static void *later(void *fd) {
    usleep(200000);
    CHECK(write((int)(long)fd, "late", 4) == 4);
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a, b;
    char text[8] = {0};
    struct sockaddr_in at;
    int s = bound(SOCK_STREAM, &at);
    tcp_pair(&a, &b);
    struct sigaction plain = {.sa_handler = handler}, restart = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &plain, NULL) == 0);
    every_ms(50);
    FAILS(EINTR, recv(a, text, 8, 0));
    FAILS(EINTR, read(a, text, 8));
    FAILS(EINTR, accept(s, NULL, NULL));
    every_ms(0);
    CHECK(sigaction(SIGALRM, &restart, NULL) == 0);
    for (int way = 0; way < 2; way++) {
        pthread_t thread;
        sigset_t alarm;
        sigemptyset(&alarm), sigaddset(&alarm, SIGALRM);
        CHECK(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
        CHECK(pthread_create(&thread, NULL, later, (void *)(long)b) == 0);
        CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL) == 0);
        int before = seen;
        every_ms(50);
        GUEST_POINT();
        CHECK((way ? read(a, text, 8) : recv(a, text, 8, 0)) == 4);
        while (seen == before) usleep(1000);
        every_ms(0);
        SAY("restarted: %s", text);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    struct timeval t = {0, 50000};
    CHECK(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
    FAILS(EAGAIN, recv(a, text, 8, 0));
    FAILS(EAGAIN, read(a, text, 8));
    t = (struct timeval){60, 0};
    CHECK(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
    every_ms(20);
    FAILS(EINTR, recv(a, text, 8, 0));
    every_ms(0);
    CHECK(close(b) == 0 && read(a, text, 8) == 0);
    CHECK(send(a, "x", 1, MSG_NOSIGNAL) == 1);
    while (!(ready(a, POLLIN, 1000) & POLLERR) && send(a, "x", 1, MSG_NOSIGNAL) == 1)
        ;
    send(a, "x", 1, MSG_NOSIGNAL);
    FAILS(EPIPE, send(a, "x", 1, MSG_NOSIGNAL));
    pid_t child = fork();
    if (child == 0) {
        send(a, "x", 1, 0);
        _exit(1);
    }
    say_end(child);
    child = fork();
    if (child == 0) {
        write(a, "x", 1);
        _exit(1);
    }
    say_end(child);
    SUCCESS();
}
