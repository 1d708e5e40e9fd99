// What is wrong with a call on a socket.
// calls: socket bind connect accept listen getsockopt setsockopt getsockname getpeername shutdown sendmsg recvmsg sendmmsg
#include "socket.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_in at = loopback();
    socklen_t bytes = sizeof at;
    int file = open(".", O_RDONLY), value = 0, s;
    FAILS(EAFNOSUPPORT, socket(99, SOCK_STREAM, 0));
    FAILS(EPROTONOSUPPORT, socket(AF_UNIX, SOCK_STREAM, 99));
    FAILS(EINVAL, socket(AF_INET, 99, 0));
    FAILS(ENOTSOCK, bind(file, (void *)&at, sizeof at));
    FAILS(ENOTSOCK, recv(file, &value, 1, 0));
    FAILS(EBADF, connect(1000, (void *)&at, sizeof at));
    CHECK((s = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    FAILS(EINVAL, accept(s, NULL, NULL));
    FAILS(ENOTCONN, getpeername(s, (void *)&at, &bytes));
    FAILS(ENOTCONN, recv(s, &value, 1, 0));
    FAILS(ENOTCONN, shutdown(s, SHUT_RD));
    FAILS(EINVAL, bind(s, (void *)&at, 3));
    FAILS(EFAULT, bind(s, (void *)8, sizeof at));
    FAILS(ENOPROTOOPT, setsockopt(s, SOL_SOCKET, 9999, &value, 4));
    FAILS(EINVAL, setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &value, 1));
    bytes = -1;
    FAILS(EINVAL, getsockopt(s, SOL_SOCKET, SO_TYPE, &value, &bytes));
    FAILS(EINVAL, getsockname(s, (void *)&at, &bytes));
    bytes = 4;
    FAILS(EFAULT, getsockopt(s, SOL_SOCKET, SO_TYPE, &value, NULL));
    FAILS(EFAULT, getsockname(s, NULL, &bytes));
    struct msghdr m = {0};
    FAILS(EFAULT, sendmsg(s, (void *)8, 0));
    m.msg_iovlen = 5000;
    FAILS(EMSGSIZE, recvmsg(s, &m, 0));
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x08080808)};
    FAILS(EADDRNOTAVAIL, bind(s, (void *)&other, sizeof other));
    GUEST_POINT();
    int a, b;
    tcp_pair(&a, &b);
    FAILS(EISCONN, connect(a, (void *)&at, sizeof at));
    FAILS(EINVAL, listen(a, 1));
    FAILS(EOPNOTSUPP, accept(socket(AF_INET, SOCK_DGRAM, 0), NULL, NULL));
    struct rlimit few = {20, 20};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (dup(0) >= 0)
        ;
    FAILS(EMFILE, socket(AF_INET, SOCK_STREAM, 0));
    CHECK(close(file) == 0 && socket(AF_INET, SOCK_STREAM, 0) == file);
    SUCCESS();
}
