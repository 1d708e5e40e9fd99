// Several messages at once.
// calls: sendmmsg recvmmsg
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
    struct iovec v[3] = {{"one", 3}, {"two", 3}, {"three", 5}};
    struct mmsghdr m[3] = {0};
    for (int i = 0; i < 3; i++) m[i].msg_hdr.msg_iov = &v[i], m[i].msg_hdr.msg_iovlen = 1;
    CHECK(sendmmsg(s[0], m, 3, 0) == 3);
    GUEST_POINT();
    char b[3][8] = {0};
    for (int i = 0; i < 3; i++) v[i] = (struct iovec){b[i], 8};
    CHECK(recvmmsg(s[1], m, 3, 0, NULL) == 3);
    for (int i = 0; i < 3; i++) SAY("%s", b[i]);
    SUCCESS();
}
