// Sockets passed through a named socket, to oneself and to a child.
// calls: sendmsg recvmsg accept
#include "socket.h"

static int unix_pair(int *other) {
    struct sockaddr_un at = {AF_UNIX, "s"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(s, (void *)&at, sizeof at) == 0 && listen(s, 1) == 0 && connect(c, (void *)&at, sizeof at) == 0);
    *other = accept(s, NULL, NULL);
    CHECK(*other >= 0 && close(s) == 0 && unlink("s") == 0);
    return c;
}

static void pass(int through, int *fds, int count) {
    char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec v = {"fds", 3};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
    memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    CHECK(sendmsg(through, &m, 0) == 3);
}

static int take(int from, int *fds, int room, int flags) {
    char control[CMSG_SPACE(8 * sizeof(int))] = {0}, text[8];
    struct iovec v = {text, 8};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room ? CMSG_SPACE(room * sizeof(int)) : 0};
    CHECK(recvmsg(from, &m, flags) == 3);
    if (m.msg_flags & MSG_CTRUNC)
        SAY("cut");
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (!c)
        return 0;
    int count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(c), count * sizeof(int));
    return count;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int to, from, a, b, got[8];
    from = unix_pair(&to);
    tcp_pair(&a, &b);
    pass(to, (int[]){a, b}, 2);
    GUEST_POINT();
    CHECK(take(from, got, 8, MSG_CMSG_CLOEXEC) == 2 && got[0] != a && fcntl(got[0], F_GETFD) == FD_CLOEXEC);
    CHECK(close(a) == 0 && close(b) == 0);
    char text[8] = {0};
    CHECK(write(got[0], "still", 5) == 5 && read(got[1], text, 8) == 5);
    SAY("%s", text);
    pass(to, got, 2);
    CHECK(take(from, got + 2, 0, 0) == 0);
    pass(to, got, 1);
    pid_t child = fork();
    if (child == 0) {
        CHECK(close(got[0]) == 0 && close(got[1]) == 0 && take(from, got, 1, 0) == 1);
        CHECK(write(got[0], "child", 5) == 5);
        _exit(3);
    }
    CHECK(close(got[0]) == 0);
    GUEST_POINT();
    CHECK(recv(got[1], text, 5, MSG_WAITALL) == 5);
    SAY("%s", text);
    say_end(child);
    CHECK(read(got[1], text, 8) == 0);
    SUCCESS();
}
