// Listeners and connections that a family shares: several accept, and a connection ends when the last of them closes it.
// calls: accept close
#include "socket.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_in at;
    int s = bound(SOCK_STREAM, &at);
    char text[16] = {0};
    pid_t workers[3];
    for (int i = 0; i < 3; i++)
        if ((workers[i] = fork()) == 0) {
            int served = 0;
            for (;;) {
                int c = accept(s, NULL, NULL);
                CHECK(c >= 0 && recv(c, text, 4, MSG_WAITALL) == 4);
                if (!memcmp(text, "stop", 4))
                    _exit(served > 0 ? 7 : 7);
                served++;
                CHECK(write(c, text, 4) == 4 && close(c) == 0);
            }
        }
    for (int i = 0; i < 60; i++) {
        int c = connected(at);
        char sent[5];
        snprintf(sent, 5, "%04d", i);
        CHECK(write(c, sent, 4) == 4 && recv(c, text, 5, MSG_WAITALL) == 4 && !memcmp(text, sent, 4) && close(c) == 0);
    }
    SAY("60 served");
    int stops[3];
    for (int i = 0; i < 3; i++) {
        stops[i] = connected(at);
        CHECK(write(stops[i], "stop", 4) == 4);
    }
    for (int i = 0; i < 3; i++) {
        say_end(workers[i]);
        CHECK(recv(stops[i], text, 1, 0) == 0);
    }
    // The parent waits in accept while the child, which has the connection alone, closes it: its peer sees the end at once.
    int first = connected(at), c = accept(s, NULL, NULL);
    pid_t child = fork();
    if (child == 0) {
        CHECK(close(s) == 0 && recv(c, text, 2, MSG_WAITALL) == 2 && close(c) == 0);
        _exit(0);
    }
    CHECK(close(c) == 0);
    child = fork();
    if (child == 0) {
        CHECK(close(s) == 0 && write(first, "go", 2) == 2 && recv(first, text, 1, 0) == 0);
        CHECK(close(connected(at)) == 0);
        _exit(0);
    }
    GUEST_POINT();
    CHECK(accept(s, NULL, NULL) >= 0);
    SAY("the end was seen");
    CHECK(wait(NULL) > 0 && wait(NULL) > 0);
    // Inherited as standard input and output, through exec.
    int a, b;
    tcp_pair(&a, &b);
    child = fork();
    if (child == 0) {
        CHECK(dup2(b, 0) == 0 && dup2(b, 1) == 1);
        execl("/bin/sh", "sh", "-c", "read line; echo \"got $line\"", NULL);
        _exit(9);
    }
    CHECK(close(b) == 0 && write(a, "a line\n", 7) == 7 && recv(a, text, 16, MSG_WAITALL) == 11);
    SAY("%.10s", text);
    say_end(child);
    SUCCESS();
}
