// Nothing is lost and nothing comes twice, however signals fall: an alarm every millisecond while bytes and connections come.
// calls: recvfrom recvmsg read sendto accept setitimer
#include "socket.h"

static volatile int alarms;

static void handler(int signal) { alarms += signal == SIGALRM; }

static void alarm_every_us(int us) {
    struct itimerval t = {{0, us}, {0, us}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a, b;
    struct sockaddr_in at;
    int s = bound(SOCK_STREAM, &at);
    tcp_pair(&a, &b);
    pid_t child = fork();
    if (child == 0) {
        for (unsigned i = 0; i < 600; i++)
            CHECK(send(b, &i, 4, 0) == 4 && (i % 8 || usleep(2000) == 0));
        for (int i = 0; i < 60; i++) {
            int c = connected(at), n;
            CHECK(send(c, &i, 4, 0) == 4 && recv(c, &n, 4, MSG_WAITALL) == 4 && n == i && close(c) == 0);
        }
        _exit(0);
    }
    CHECK(close(b) == 0);
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction act = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
        CHECK(sigaction(SIGALRM, &act, NULL) == 0);
        alarm_every_us(1000);
        for (unsigned i = restart * 300; i < restart * 300 + 300u; i++) {
            unsigned got = 0;
            int n = 0;
            while (n < 4) {
                ssize_t k = i % 2 ? recv(a, (char *)&got + n, 4 - n, 0) : read(a, (char *)&got + n, 4 - n);
                CHECK(k > 0 || errno == EINTR);
                n += k > 0 ? k : 0;
            }
            CHECK(got == i);
        }
    }
    SAY("600 numbers");
    GUEST_POINT();
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction act = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
        CHECK(sigaction(SIGALRM, &act, NULL) == 0);
        for (int i = restart * 30; i < restart * 30 + 30; i++) {
            int c, n;
            do
                c = accept(s, NULL, NULL);
            while (c < 0 && errno == EINTR);
            CHECK(c >= 0);
            while (recv(c, &n, 4, MSG_WAITALL) < 0)
                CHECK(errno == EINTR);
            CHECK(n == i);
            while (send(c, &n, 4, 0) < 0)
                CHECK(errno == EINTR);
            CHECK(close(c) == 0);
        }
    }
    alarm_every_us(0);
    SAY("60 connections, alarms %s", alarms > 10 ? "came" : "did not come");
    say_end(child);
    SUCCESS();
}
