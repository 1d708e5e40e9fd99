// One descriptor in a message of one byte, over a connected Unix socket.
#ifndef PASS_H
#define PASS_H
#include "socket.h"

static void pass(int through, int fd) {
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {"f", 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    CHECK(sendmsg(through, &m, 0) == 1);
}

static int take(int from) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, text;
    struct iovec v = {&text, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(from, &m, 0) == 1);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    CHECK(c && c->cmsg_type == SCM_RIGHTS);
    int fd;
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

#endif
