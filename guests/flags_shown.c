// The flags of descriptors are home's: what opening set and what did not, as any program that shares the open file sees them.
// calls: fcntl accept recvmsg dup
#include "socket.h"

static void say(const char *of, int fd) {
    int flags = fcntl(fd, F_GETFL);
    CHECK(flags >= 0);
    SAY("%s: %o", of, flags);
}

static int timed_out;

static void on_alarm(int signal) {
    (void)signal;
    timed_out = 1;
}

static void *fill(void *fd) {
    static char full[1 << 16];
    while (write(*(int *)fd, full, sizeof full) > 0) {}
    return NULL;
}

// A writer that waits does not keep another one from being interrupted, even if both append.
static void append_in_turn(void) {
    int a, b, small = 4096;
    tcp_pair(&a, &b);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    CHECK(setsockopt(a, SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
    CHECK(fcntl(a, F_SETFL, fcntl(a, F_GETFL) | O_APPEND) == 0);
    say("appends", a);
    pthread_t writer;
    CHECK(pthread_create(&writer, NULL, fill, &a) == 0);
    while (ready(a, POLLOUT, 100)) {}
    struct sigaction act = {.sa_handler = on_alarm};
    struct itimerval soon = {.it_value.tv_usec = 200000, .it_interval.tv_usec = 200000};
    sigset_t alarm;
    CHECK(sigemptyset(&alarm) == 0 && sigaddset(&alarm, SIGALRM) == 0);
    CHECK(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    ssize_t written;
    do written = write(a, "x", 1);
    while (written == 1);
    CHECK(written == -1 && errno == EINTR && timed_out);
    CHECK(close(b) == 0 && pthread_join(writer, NULL) == 0);
    soon = (struct itimerval){0};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0 && close(a) == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_in at;
    int listener = bound(SOCK_STREAM, &at), client = connected(at), taken = accept(listener, NULL, NULL);
    int later = connected(at), names = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(taken >= 0 && names >= 0);
    for (int round = 0; round < 2; round++) {
        say("standard input", 0);
        say("listener", listener);
        say("client", client);
        say("accepted", taken);
        say("datagrams", names);
        int copy = RAW(dup, taken), high = fcntl(taken, F_DUPFD_CLOEXEC, 70);
        say("duplicate", copy);
        CHECK(fcntl(copy, F_SETFL, fcntl(copy, F_GETFL) | O_NONBLOCK) == 0);
        say("does not wait", taken);
        char byte;
        FAILS(EAGAIN, read(high, &byte, 1));
        CHECK(fcntl(high, F_SETFL, fcntl(high, F_GETFL) & ~O_NONBLOCK) == 0);
        say("waits", copy);
        CHECK(write(client, "x", 1) == 1 && read(copy, &byte, 1) == 1);
        CHECK(close(copy) == 0 && close(high) == 0);
        GUEST_POINT();
    }
    int last = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(last >= 0 && later >= 0);
    say("accepted afterwards", last);
    append_in_turn();
    SUCCESS();
}
