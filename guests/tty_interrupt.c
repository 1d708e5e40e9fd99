// Dies of Ctrl-C.
// calls: rt_sigaction
// ends: signal 2
// terminal: yes
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    puts("EXIT-SUCCESS");
    // The terminal shows a key after it has sent the signal: whether that is seen before the death of a session's leader hangs it up is a matter of luck.
    struct termios t;
    CHECK(tcgetattr(0, &t) == 0);
    t.c_lflag &= ~ECHO;
    CHECK(tcsetattr(0, TCSANOW, &t) == 0);
    GUEST_POINT();
    please_type("^C");
    for (;;) pause();
}
