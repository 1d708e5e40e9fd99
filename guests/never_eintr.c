// Calls that wait for nothing are not interrupted, however many signals come.
// calls: getsockname setsockopt kill socket close
#include "socket.h"

static volatile int alarms;

static void handler(int signal) { alarms += signal == SIGALRM; }

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction act = {.sa_handler = handler};
    struct itimerval t = {{0, 300}, {0, 300}};
    struct sockaddr_in at;
    int s = bound(SOCK_STREAM, &at), on = 1;
    CHECK(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &t, NULL) == 0);
    GUEST_POINT();
    int64_t end = now_us(CLOCK_MONOTONIC) + 300000;
    while (now_us(CLOCK_MONOTONIC) < end) {
        socklen_t bytes = sizeof at;
        CHECK(getsockname(s, (void *)&at, &bytes) == 0);
        CHECK(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
        CHECK(kill(getppid(), 0) == 0);
        int other = socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(other == s + 1 && close(other) == 0);
    }
    SAY("alarms %s", alarms > 10 ? "came" : "did not come");
    SUCCESS();
}
