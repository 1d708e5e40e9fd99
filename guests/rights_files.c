// Files passed through a named socket: whoever gets one has the same open file, with its offset.
// calls: sendmsg sendmmsg recvmsg
#include "socket.h"

struct letter {
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec v;
    struct mmsghdr m;
};

static void put(struct letter *l, int fd) {
    *l = (struct letter){.v = {"fd", 2}};
    l->m.msg_hdr = (struct msghdr){.msg_iov = &l->v, .msg_iovlen = 1, .msg_control = l->control, .msg_controllen = sizeof l->control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&l->m.msg_hdr);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
}

static int take(int from) {
    char control[CMSG_SPACE(sizeof(int))] = {0}, text[8];
    struct iovec v = {text, 8};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = -1;
    CHECK(recvmsg(from, &m, 0) == 2 && CMSG_FIRSTHDR(&m));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_un at = {AF_UNIX, "s"};
    int s = socket(AF_UNIX, SOCK_DGRAM, 0), c = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(bind(s, (void *)&at, sizeof at) == 0 && connect(c, (void *)&at, sizeof at) == 0);
    GUEST_POINT();
    int file = open("f", O_CREAT | O_RDWR, 0600);
    CHECK(write(file, "one ", 4) == 4);
    struct letter l, more[2];
    put(&l, file);
    CHECK(sendmsg(c, &l.m.msg_hdr, 0) == 2);
    int got = take(s);
    CHECK(write(got, "two ", 4) == 4 && lseek(file, 0, SEEK_CUR) == 8);
    put(&more[0], file), put(&more[1], got);
    struct mmsghdr both[2] = {more[0].m, more[1].m};
    int sent = sendmmsg(c, both, 2, 0);
    CHECK(sent == 2 || (sent == 1 && sendmsg(c, &more[1].m.msg_hdr, 0) == 2));
    int third = take(s), fourth = take(s);
    CHECK(write(third, "three ", 6) == 6 && write(fourth, "four", 4) == 4);
    char text[32] = {0};
    CHECK(lseek(file, 0, SEEK_SET) == 0 && read(got, text, sizeof text) == 18);
    SAY("%s", text);
    CHECK(close(file) == 0 && close(got) == 0 && close(third) == 0 && close(fourth) == 0);
    SUCCESS();
}
