// A file that came in a message (SCM_RIGHTS) has its offset in common with whoever sent it, and goes on so after a move.
// calls: sendmsg recvmsg lseek read
#include "guest.h"

static void pass(int socket, int fd) {
    char byte = 'f', control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive(int socket) {
    int fd = -1;
    char byte, control[CMSG_SPACE(sizeof fd)];
    struct iovec io = {&byte, 1};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(socket, &message, 0) == 1 && message.msg_controllen > 0);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    CHECK(fd >= 0);
    return fd;
}

// Does as it is told: `s` goes to an offset, `r` reads a byte; says where it is then.
static _Noreturn void obey(int socket) {
    int fd = open("f", O_RDWR);
    CHECK(fd >= 0 && lseek(fd, 3, SEEK_SET) == 3);
    pass(socket, fd);
    unsigned char told[2], byte;
    while (read(socket, told, 2) == 2) {
        if (told[0] == 's') CHECK(lseek(fd, told[1], SEEK_SET) == told[1]);
        if (told[0] == 'r') CHECK(read(fd, &byte, 1) == 1);
        unsigned char at = lseek(fd, 0, SEEK_CUR);
        CHECK(write(socket, &at, 1) == 1);
    }
    _exit(0);
}

static int tell(int socket, char what, unsigned char to) {
    unsigned char at, order[2] = {what, to};
    CHECK(write(socket, order, 2) == 2 && read(socket, &at, 1) == 1);
    return at;
}

static void use(int fd, int socket, int again) {
    char bytes[4] = {0};
    CHECK(lseek(fd, 10, SEEK_SET) == 10);
    SAY("it is at %d", tell(socket, '.', 0));
    SAY("it has read until %d, here it is at %d", tell(socket, 'r', 0), (int)lseek(fd, 0, SEEK_CUR));
    SAY("it has gone to %d, here it is at %d", tell(socket, 's', 20), (int)lseek(fd, 0, SEEK_CUR));
    CHECK(read(fd, bytes, 3) == 3);
    SAY("read here: %s; it is at %d, and passed to oneself at %d", bytes, tell(socket, '.', 0), (int)lseek(again, 0, SEEK_CUR));
    CHECK(lseek(again, -2, SEEK_END) == 24);
    SAY("it is at %d, here at %d", tell(socket, '.', 0), (int)lseek(fd, 0, SEEK_CUR));
    CHECK(write(fd, "Y", 1) == 1);
    SAY("after a write it is at %d", tell(socket, '.', 0));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int made = open("f", O_RDWR | O_CREAT, 0600), s[2], own[2];
    CHECK(made >= 0 && write(made, "abcdefghijklmnopqrstuvwxyz", 26) == 26 && close(made) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, own) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(s[0]);
        obey(s[1]);
    }
    close(s[1]);
    int fd = receive(s[0]);
    SAY("it came at %d", (int)lseek(fd, 0, SEEK_CUR));
    pass(own[0], fd);
    GUEST_POINT();
    int again = receive(own[1]);
    use(fd, s[0], again);
    GUEST_POINT();
    use(fd, s[0], again);
    int status;
    CHECK(close(s[0]) == 0 && waitpid(child, &status, 0) == child);
    SAY("it ended with %d", WEXITSTATUS(status));
    SUCCESS();
}
