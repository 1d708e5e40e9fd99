// Datagrams: one at a time, cut, several by one call, and to nobody.
// calls: socket bind connect sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg getpeername
#include "socket.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_in at, from = {0};
    int s = bound(SOCK_DGRAM, &at), c = socket(AF_INET, SOCK_DGRAM, 0);
    char text[32] = {0};
    socklen_t bytes = sizeof from;
    CHECK(sendto(c, "to", 2, 0, (void *)&at, sizeof at) == 2);
    GUEST_POINT();
    CHECK(recvfrom(s, text, sizeof text, 0, (void *)&from, &bytes) == 2 && bytes == sizeof from && from.sin_family == AF_INET);
    CHECK(sendto(s, "", 0, 0, (void *)&from, sizeof from) == 0 && recv(c, text, 5, 0) == 0);
    CHECK(connect(c, (void *)&at, sizeof at) == 0 && getpeername(c, (void *)&from, &bytes) == 0 && from.sin_port == at.sin_port);
    CHECK(write(c, "a long one", 10) == 10);
    CHECK(recv(s, text, 4, MSG_TRUNC | MSG_PEEK) == 10 && read(s, text, 4) == 4);
    SAY("%.4s", text);
    struct iovec v[2] = {{text, 3}, {text + 10, 3}};
    struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = v, .msg_iovlen = 2};
    CHECK(send(c, "123456789", 9, 0) == 9 && recvmsg(s, &m, 0) == 6);
    SAY("%.3s %.3s, %s, address of %d bytes", text, text + 10, m.msg_flags & MSG_TRUNC ? "cut" : "whole", m.msg_namelen);
    struct iovec parts[3] = {{"one", 3}, {"three", 5}, {"fifteen", 7}};
    struct mmsghdr out[3] = {{.msg_hdr = {.msg_iov = &parts[0], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &parts[1], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &parts[2], .msg_iovlen = 1}}};
    CHECK(sendmmsg(c, out, 3, 0) == 3 && out[0].msg_len == 3 && out[2].msg_len == 7);
    GUEST_POINT();
    char buffers[4][16] = {0};
    struct iovec to[4];
    struct mmsghdr in[4] = {0};
    for (int i = 0; i < 4; i++) {
        to[i] = (struct iovec){buffers[i], 15};
        in[i].msg_hdr = (struct msghdr){.msg_iov = &to[i], .msg_iovlen = 1};
    }
    CHECK(recvmmsg(s, in, 4, MSG_WAITFORONE, NULL) == 3);
    SAY("%s %s %s, %d bytes", buffers[0], buffers[1], buffers[2], in[1].msg_len);
    FAILS(EAGAIN, recvmmsg(s, in, 4, MSG_DONTWAIT, NULL));
    CHECK(sendmmsg(c, out, 2, 0) == 2);
    struct timespec none = {0, 1};
    CHECK(recvmmsg(s, in, 4, 0, &none) == 1 && recv(s, text, 9, 0) == 5);
    CHECK(close(s) == 0 && send(c, "x", 1, 0) == 1);
    GUEST_POINT();
    FAILS(ECONNREFUSED, recv(c, text, 1, 0));
    struct sockaddr none_at = {.sa_family = AF_UNSPEC};
    CHECK(connect(c, &none_at, sizeof none_at) == 0);
    FAILS(EDESTADDRREQ, send(c, "x", 1, 0));
    FAILS(EMSGSIZE, sendto(c, malloc(70000), 70000, 0, (void *)&at, sizeof at));
    SUCCESS();
}
