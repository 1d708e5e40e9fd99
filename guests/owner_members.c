// All members of a process group are told that something can be read, wherever they are.
// calls: fcntl setpgid rt_sigtimedwait
#include "guest.h"
#include <netinet/in.h>

enum { MEMBERS = 2 };

struct owner { int type, pid; };

static pid_t member[MEMBERS];

static void begin(int *leader, sigset_t *set, int go) {
    for (int i = 0; i < MEMBERS; i++) {
        member[i] = fork();
        CHECK(member[i] >= 0);
        if (member[i]) {
            if (i == 0) *leader = member[0];
            CHECK(setpgid(member[i], *leader) == 0);
            continue;
        }
        char byte;
        CHECK(read(go, &byte, 1) == 1);
        struct timespec long_ = {10, 0};
        siginfo_t info;
        int signal = sigtimedwait(set, &info, &long_);
        _exit(signal == SIGIO ? 1 : signal == SIGURG ? 2 : signal == SIGUSR1 ? 3 : 9);
    }
}

static void say(const char *what) {
    int status[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) CHECK(waitpid(member[i], &status[i], 0) == member[i]);
    SAY("%s: %d %d", what, WEXITSTATUS(status[0]), WEXITSTATUS(status[1]));
    CHECK(!fflush(stdout));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int pair[2], go[2], leader, listener, client, server;
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGIO), sigaddset(&set, SIGURG), sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && pipe(go) == 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && bind(listener, (struct sockaddr *)&to, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&to, &length) == 0);
    CHECK((client = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(client, (struct sockaddr *)&to, length) == 0);
    CHECK((server = accept(listener, NULL, NULL)) >= 0);
    GUEST_POINT();
    // A socket, by F_SETOWN: out-of-band bytes are told without O_ASYNC.
    begin(&leader, &set, go[0]);
    CHECK(write(go[1], "xx", MEMBERS) == MEMBERS);
    CHECK(fcntl(server, F_SETOWN, -leader) == 0 && fcntl(server, F_GETOWN) == -leader);
    CHECK(send(client, "!", 1, MSG_OOB) == 1);
    say("urgent");
    // By F_SETOWN_EX, with O_ASYNC.
    begin(&leader, &set, go[0]);
    CHECK(write(go[1], "xx", MEMBERS) == MEMBERS);
    struct owner owner = {2, leader}, told;
    CHECK(fcntl(server, 15, &owner) == 0 && fcntl(server, 16, &told) == 0 && told.type == 2 && told.pid == leader);
    CHECK(fcntl(server, F_SETFL, O_ASYNC) == 0 && send(client, "x", 1, 0) == 1);
    say("readable");
    // A pipe, with another signal.
    begin(&leader, &set, go[0]);
    CHECK(write(go[1], "xx", MEMBERS) == MEMBERS && pipe(pair) == 0);
    CHECK(fcntl(pair[0], F_SETOWN, -leader) == 0 && fcntl(pair[0], F_SETSIG, SIGUSR1) == 0 && fcntl(pair[0], F_SETFL, O_ASYNC) == 0);
    CHECK(write(pair[1], "x", 1) == 1);
    say("pipe");
    FAILS(ESRCH, fcntl(server, F_SETOWN, -0x3ffffff0));
    SUCCESS();
}
