// Requests to descriptors.
// calls: ioctl
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600), p[2], n;
    CHECK(ioctl(fd, FIOCLEX) == 0 && fcntl(fd, F_GETFD) == 1 && ioctl(fd, FIONCLEX) == 0 && fcntl(fd, F_GETFD) == 0);
    CHECK(pipe(p) == 0 && write(p[1], "12345", 5) == 5 && ioctl(p[0], FIONREAD, &n) == 0);
    SAY("%d bytes wait", n);
    GUEST_POINT();
    n = 1;
    CHECK(ioctl(p[0], FIONBIO, &n) == 0 && (fcntl(p[0], F_GETFL) & O_NONBLOCK));
    struct winsize w;
    FAILS(ENOTTY, ioctl(fd, TIOCGWINSZ, &w));
    FAILS(ENOTTY, ioctl(p[0], TIOCGWINSZ, &w));
    FAILS(EBADF, ioctl(999, FIONREAD, &n));
    SUCCESS();
}
