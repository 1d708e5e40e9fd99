// A pair of sockets, with a descriptor passed through.
// calls: socketpair sendto recvfrom sendmsg recvmsg shutdown getsockname getpeername getsockopt setsockopt
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) == 0);
    CHECK(send(s[0], "hello", 5, 0) == 5);
    GUEST_POINT();
    char b[16] = {0};
    CHECK(recv(s[1], b, 2, MSG_PEEK) == 2 && recvfrom(s[1], b, 16, 0, NULL, NULL) == 5);
    SAY("%s", b);
    int fd = eventfd(7, 0), value = 0;
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    CHECK(sendmsg(s[1], &m, 0) == 1);
    v.iov_base = b;
    CHECK(recvmsg(s[0], &m, MSG_CMSG_CLOEXEC) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    uint64_t n;
    CHECK(read(fd, &n, 8) == 8);
    SAY("through the passed descriptor: %lu", (long)n);
    socklen_t length = sizeof value;
    CHECK(getsockopt(s[0], SOL_SOCKET, SO_TYPE, &value, &length) == 0 && value == SOCK_STREAM);
    value = 1;
    CHECK(setsockopt(s[0], SOL_SOCKET, SO_PASSCRED, &value, sizeof value) == 0);
    struct sockaddr_storage a;
    length = sizeof a;
    CHECK(getsockname(s[0], (void *)&a, &length) == 0 && length == 2);
    length = sizeof a;
    CHECK(getpeername(s[0], (void *)&a, &length) == 0 && a.ss_family == AF_UNIX);
    CHECK(shutdown(s[0], SHUT_WR) == 0);
    SAY("end: %zd", recv(s[1], b, 16, 0));
    SUCCESS();
}
