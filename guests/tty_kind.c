// What a terminal says about itself.
// calls: ioctl fstat
// terminal: yes
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct winsize w;
    struct termios t;
    for (int fd = 0; fd < 3; fd++) {
        struct stat s;
        CHECK(isatty(fd) && fstat(fd, &s) == 0 && S_ISCHR(s.st_mode));
        CHECK(ioctl(fd, TIOCGWINSZ, &w) == 0 && tcgetattr(fd, &t) == 0);
        SAY("%d: major %u, %d x %d, access %d, %s", fd, (unsigned)(s.st_rdev >> 8), w.ws_row, w.ws_col, fcntl(fd, F_GETFL) & O_ACCMODE,
            (t.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG) ? "cooked" : "raw");
        FAILS(ESPIPE, lseek(fd, 0, SEEK_CUR));
    }
    GUEST_POINT();
    SAY("named %.9s", ttyname(0));
    CHECK(tcgetpgrp(0) == getpgrp() && tcgetsid(0) == getsid(0));
    int n = 99;
    CHECK(ioctl(0, FIONREAD, &n) == 0);
    SAY("%d bytes wait", n);
    FAILS(ENOTTY, ioctl(0, 0x12345678));
    FAILS(EFAULT, ioctl(0, TIOCGWINSZ, (void *)8));
    SUCCESS();
}
