// The flags of descriptors that come in messages are home's, wherever the receiver takes them.
// calls: fcntl sendmsg recvmsg
#include "pass.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int ends[2], tube[2], a, b;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && pipe(tube) == 0);
    tcp_pair(&a, &b);
    put_file("f", "abc");
    int file = open("f", O_RDONLY | O_NONBLOCK), appended = open("f", O_WRONLY | O_APPEND);
    CHECK(file >= 0 && appended >= 0 && fcntl(b, F_SETFL, O_NONBLOCK) == 0);
    const char *of[] = {"stream", "one that does not wait", "pipe to read", "pipe to write", "file", "file to append to"};
    int passed[] = {a, b, tube[0], tube[1], file, appended};
    const int all = sizeof passed / sizeof *passed;
    for (int n = 0; n < all; n++) pass(ends[0], passed[n]), CHECK(close(passed[n]) == 0);
    GUEST_POINT();
    for (int n = 0; n < all; n++) {
        int fd = take(ends[1]);
        struct stat s;
        CHECK(fstat(fd, &s) == 0);
        int flags = fcntl(fd, F_GETFL);
        SAY("%s: flags %o, mode %o", of[n], flags, s.st_mode & S_IFMT);
        char byte;
        if (S_ISSOCK(s.st_mode) && flags & O_NONBLOCK) FAILS(EAGAIN, read(fd, &byte, 1));
    }
    SUCCESS();
}
