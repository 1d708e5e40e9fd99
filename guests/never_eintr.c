// Calls that wait for nothing are not interrupted, however many signals come: their kind, their flags, or their socket's, say so.
// calls: getsockname setsockopt kill socket close wait4 waitid recvfrom recvmsg
#include "socket.h"

static volatile int alarms;

static void handler(int signal) { alarms += signal == SIGALRM; }

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction act = {.sa_handler = handler};
    struct itimerval t = {{0, 300}, {0, 300}};
    struct sockaddr_in at;
    int s = bound(SOCK_STREAM, &at), on = 1, still = bound(SOCK_DGRAM, &at), calm = bound(SOCK_DGRAM | SOCK_NONBLOCK, &at);
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    CHECK(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &t, NULL) == 0);
    GUEST_POINT();
    int64_t end = now_us(CLOCK_MONOTONIC) + 300000;
    while (now_us(CLOCK_MONOTONIC) < end) {
        socklen_t bytes = sizeof at;
        CHECK(getsockname(s, (void *)&at, &bytes) == 0);
        CHECK(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
        CHECK(kill(getppid(), 0) == 0);
        int other = socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(other == calm + 1 && close(other) == 0);
        char text[8];
        struct iovec v = {text, sizeof text};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
        siginfo_t info = {0};
        CHECK(waitpid(child, NULL, WNOHANG) == 0);
        CHECK(waitid(P_PID, child, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
        CHECK(recv(still, text, sizeof text, MSG_DONTWAIT) == -1 && errno == EAGAIN);
        CHECK(recvmsg(calm, &m, 0) == -1 && errno == EAGAIN);
    }
    CHECK(kill(child, SIGKILL) == 0);
    struct itimerval none = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0 && waitpid(child, NULL, 0) == child);
    SAY("alarms %s", alarms > 10 ? "came" : "did not come");
    SUCCESS();
}
