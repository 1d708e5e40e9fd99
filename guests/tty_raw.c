// Single keys without echo.
// calls: ioctl read poll
// terminal: yes
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct termios t, raw;
    CHECK(tcgetattr(0, &t) == 0);
    raw = t;
    cfmakeraw(&raw);
    raw.c_oflag = t.c_oflag;
    CHECK(tcsetattr(0, TCSANOW, &raw) == 0);
    char c = 0, b[8] = {0};
    struct pollfd p = {0, POLLIN, 0};
    SAY("nothing: %d", poll(&p, 1, 0));
    please_type("x");
    CHECK(poll(&p, 1, 60000) == 1 && read(0, &c, 1) == 1);
    SAY("key %c", c);
    GUEST_POINT();
    please_type("^C");
    CHECK(read(0, &c, 1) == 1);
    SAY("key %d, no signal", c);
    int flags = fcntl(0, F_GETFL);
    CHECK(fcntl(0, F_SETFL, flags | O_NONBLOCK) == 0);
    FAILS(EAGAIN, read(0, b, 8));
    CHECK(fcntl(0, F_SETFL, flags) == 0);
    raw.c_cc[VMIN] = 0, raw.c_cc[VTIME] = 1;
    CHECK(tcsetattr(0, TCSADRAIN, &raw) == 0);
    SAY("after a tenth of a second: %zd", read(0, b, 8));
    CHECK(tcsetattr(0, TCSAFLUSH, &t) == 0 && tcgetattr(0, &raw) == 0 && raw.c_lflag == t.c_lflag);
    SUCCESS();
}
