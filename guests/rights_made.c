// Pipes, and a pair of sockets, made where the process is, are passed through a named socket: to oneself, and to a child that has the pipe, too.
// calls: sendmsg recvmsg pipe2 socketpair
#include "socket.h"

static int unix_pair(int *other) {
    struct sockaddr_un at = {AF_UNIX, "s"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(s, (void *)&at, sizeof at) == 0 && listen(s, 1) == 0 && connect(c, (void *)&at, sizeof at) == 0);
    *other = accept(s, NULL, NULL);
    CHECK(*other >= 0 && close(s) == 0 && unlink("s") == 0);
    return c;
}

static void pass(int through, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec v = {"fd", 2};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    CHECK(sendmsg(through, &m, 0) == 2);
}

static int take(int from) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, text[8];
    struct iovec v = {text, 8};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(from, &m, 0) == 2 && CMSG_FIRSTHDR(&m));
    return *(int *)CMSG_DATA(CMSG_FIRSTHDR(&m));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int to, from = unix_pair(&to), made[2], pair[2], epoll = epoll_create1(0);
    char text[8] = {0};
    CHECK(pipe(made) == 0 && write(made[1], "kept", 4) == 4);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, made[0], &event) == 0);
    pass(to, made[0]);
    GUEST_POINT();
    int reader = take(from);
    CHECK(epoll_wait(epoll, &event, 1, 0) == 1 && event.data.u32 == 7);
    CHECK(read(reader, text, 8) == 4);
    SAY("%s", text);
    CHECK(close(reader) == 0 && close(made[0]) == 0 && close(epoll) == 0);
    signal(SIGPIPE, SIG_IGN);
    FAILS(EPIPE, write(made[1], "x", 1));
    CHECK(close(made[1]) == 0);

    // A child has the same pipe when its writing end is passed to it once more.
    CHECK(pipe2(made, O_CLOEXEC) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t child = fork();
    if (child == 0) {
        int writer = take(from), end = take(from);
        CHECK(close(made[0]) == 0 && close(made[1]) == 0 && close(pair[0]) == 0 && close(pair[1]) == 0);
        CHECK(write(writer, "child", 5) == 5 && close(writer) == 0);
        CHECK(read(end, text, 8) == 4 && write(end, text, 4) == 4);
        _exit(3);
    }
    pass(to, made[1]);
    pass(to, pair[1]);
    CHECK(close(made[1]) == 0 && close(pair[1]) == 0);
    GUEST_POINT();
    CHECK(read(made[0], text, 8) == 5);
    SAY("%s", text);
    CHECK(write(pair[0], "ping", 4) == 4 && recv(pair[0], text, 4, MSG_WAITALL) == 4);
    say_end(child);
    CHECK(read(made[0], text, 8) == 0 && read(pair[0], text, 8) == 0);
    SUCCESS();
}
