// Connections that nobody has accepted yet, with what came on them: they are kept when their listener moves.
// calls: listen accept accept4 connect
#include "guest.h"
#include <netinet/in.h>
#include <sys/un.h>

enum { WAITING = 3 };

static int listener_of(int family, struct sockaddr *address, socklen_t *bytes) {
    int listener = socket(family, SOCK_STREAM, 0);
    CHECK(listener >= 0 && bind(listener, address, *bytes) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, address, bytes) == 0);
    return listener;
}

static void connect_some(int family, struct sockaddr *address, socklen_t bytes, int *clients) {
    for (int i = 0; i < WAITING; i++) {
        char words[16];
        int n = snprintf(words, sizeof words, "client %d", i);
        clients[i] = socket(family, SOCK_STREAM, 0);
        CHECK(clients[i] >= 0 && connect(clients[i], address, bytes) == 0 && write(clients[i], words, n) == n);
    }
    // One has hung up before anybody looked.
    CHECK(shutdown(clients[WAITING - 1], SHUT_WR) == 0);
}

static void accept_all(const char *kind, int listener, int *clients) {
    for (int i = 0; i < WAITING; i++) {
        char words[16] = {0}, answer[16] = {0};
        int server = i % 2 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : accept(listener, NULL, NULL);
        CHECK(server >= 0 && read(server, words, 8) == 8);
        SAY("%s: %s", kind, words);
        if (i == WAITING - 1) CHECK(read(server, words, 8) == 0);
        CHECK(write(server, "hello", 5) == 5 && read(clients[i], answer, 8) == 5 && strcmp(answer, "hello") == 0);
        CHECK(close(server) == 0 && read(clients[i], answer, 8) == 0 && close(clients[i]) == 0);
    }
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    FAILS(EAGAIN, accept(listener, NULL, NULL));
    CHECK(close(listener) == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_in internet = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "socket"};
    socklen_t internet_bytes = sizeof internet, path_bytes = sizeof path;
    int tcp = listener_of(AF_INET, (void *)&internet, &internet_bytes), tcp_clients[WAITING];
    int local = listener_of(AF_UNIX, (void *)&path, &path_bytes), local_clients[WAITING];
    connect_some(AF_INET, (void *)&internet, internet_bytes, tcp_clients);
    connect_some(AF_UNIX, (void *)&path, path_bytes, local_clients);
    struct pollfd ready[2] = {{tcp, POLLIN, 0}, {local, POLLIN, 0}};
    CHECK(poll(ready, 2, 10000) == 2);
    GUEST_POINT();
    CHECK(poll(ready, 2, 0) == 2);
    accept_all("tcp", tcp, tcp_clients);
    accept_all("local", local, local_clients);
    SUCCESS();
}
