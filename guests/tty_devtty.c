// The controlling terminal by name.
// calls: openat ioctl
// terminal: yes
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && isatty(fd));
    CHECK(write(fd, "through /dev/tty\n", 17) == 17);
    GUEST_POINT();
    please_type("secret$");
    char b[16] = {0};
    CHECK(read(fd, b, 16) == 7);
    SAY("read %.6s", b);
    CHECK(tcgetpgrp(fd) == getpgrp());
    int other = open(ttyname(0), O_RDWR | O_NOCTTY);
    CHECK(other >= 0 && write(other, "by its name\n", 12) == 12);
    SUCCESS();
}
