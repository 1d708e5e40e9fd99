// A TCP connection from its making to its end.
// calls: socket bind listen connect accept accept4 getsockname getpeername setsockopt getsockopt sendto recvfrom shutdown
#include "socket.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_in at, from, name;
    int s = bound(SOCK_STREAM, &at), on = 1, value = 0;
    SAY("descriptor %d", s);
    int a = connected(at);
    socklen_t bytes = sizeof from;
    GUEST_POINT();
    int b = accept4(s, (void *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(b >= 0 && bytes == sizeof from && from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(fcntl(b, F_GETFD) == FD_CLOEXEC && flags(b) == (O_RDWR | O_NONBLOCK));
    CHECK(getsockname(a, (void *)&name, &bytes) == 0 && name.sin_port == from.sin_port);
    bytes = 4;
    memset(&name, 0x77, sizeof name);
    CHECK(getpeername(a, (void *)&name, &bytes) == 0 && bytes == 16 && name.sin_port == at.sin_port);
    CHECK(name.sin_addr.s_addr == 0x77777777);
    FAILS(EAGAIN, recv(b, &value, 4, 0));
    CHECK(fcntl(b, F_SETFL, 0) == 0 && flags(b) == O_RDWR);
    CHECK(setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    bytes = sizeof value;
    CHECK(getsockopt(a, IPPROTO_TCP, TCP_NODELAY, &value, &bytes) == 0 && value == 1 && bytes == 4);
    CHECK(getsockopt(b, SOL_SOCKET, SO_ACCEPTCONN, &value, &bytes) == 0 && value == 0);
    CHECK(getsockopt(s, SOL_SOCKET, SO_ACCEPTCONN, &value, &bytes) == 0 && value == 1);
    struct tcp_info info;
    bytes = 8;
    CHECK(getsockopt(a, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 && bytes == 8 && info.tcpi_state == TCP_ESTABLISHED);
    char text[64] = {0};
    CHECK(send(a, "hello ", 6, MSG_MORE) == 6 && write(a, "world", 5) == 5);
    GUEST_POINT();
    CHECK(recv(b, text, 11, MSG_WAITALL) == 11);
    SAY("%s", text);
    CHECK(shutdown(a, SHUT_WR) == 0);
    CHECK(read(b, text, sizeof text) == 0);
    SAY("half closed");
    FAILS(EPIPE, send(a, "x", 1, MSG_NOSIGNAL));
    CHECK(write(b, "back", 4) == 4 && read(a, text, sizeof text) == 4);
    struct linger hard = {1, 0};
    CHECK(setsockopt(b, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0 && close(b) == 0);
    GUEST_POINT();
    FAILS(ECONNRESET, recv(a, text, 1, 0));
    CHECK(recv(a, text, 1, 0) == 0);
    CHECK(close(s) == 0 && close(a) == 0);
    a = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(ECONNREFUSED, connect(a, (void *)&at, sizeof at));
    SUCCESS();
}
