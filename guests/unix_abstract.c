// Names that are no files, packets with borders, and who sent them.
// calls: socket bind listen connect accept sendmsg recvmsg setsockopt getpeername
#include "socket.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_un at = {.sun_family = AF_UNIX}, name = {0};
    int length = 3 + snprintf(at.sun_path + 1, 100, "tern-guest-%d", getpid()), on = 1;
    int s = socket(AF_UNIX, SOCK_SEQPACKET, 0), c = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CHECK(bind(s, (void *)&at, length) == 0 && listen(s, 4) == 0);
    FAILS(EADDRINUSE, bind(c, (void *)&at, length));
    CHECK(connect(c, (void *)&at, length) == 0);
    int b = accept(s, NULL, NULL);
    socklen_t bytes = sizeof name;
    CHECK(b >= 0 && getpeername(c, (void *)&name, &bytes) == 0 && (int)bytes == length && !memcmp(&name, &at, length));
    char text[16] = {0};
    CHECK(send(c, "one", 3, 0) == 3 && write(c, "three", 5) == 5 && send(c, "", 0, 0) == 0);
    GUEST_POINT();
    CHECK(recv(b, text, 16, 0) == 3 && recv(b, text, 2, MSG_TRUNC) == 5 && read(b, text, 16) == 0);
    CHECK(setsockopt(b, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    char control[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec v = {"signed", 6};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *k = CMSG_FIRSTHDR(&m);
    struct ucred who = {getpid(), getuid(), getgid()}, got = {0};
    *k = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof who)};
    memcpy(CMSG_DATA(k), &who, sizeof who);
    CHECK(sendmsg(c, &m, 0) == 6);
    memset(control, 0, sizeof control);
    v = (struct iovec){text, 16};
    GUEST_POINT();
    CHECK(recvmsg(b, &m, 0) == 6 && m.msg_controllen == sizeof control && k->cmsg_type == SCM_CREDENTIALS);
    memcpy(&got, CMSG_DATA(k), sizeof got);
    CHECK(!memcmp(&who, &got, sizeof who));
    SAY("%.6s", text);
    CHECK(close(c) == 0 && recv(b, text, 16, 0) == 0);
    CHECK(close(s) == 0 && close(b) == 0);
    c = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    FAILS(ECONNREFUSED, connect(c, (void *)&at, length));
    SUCCESS();
}
