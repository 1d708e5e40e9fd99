// Dies of Ctrl-C.
// calls: rt_sigaction
// ends: signal 2
// terminal: yes
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    puts("EXIT-SUCCESS");
    GUEST_POINT();
    please_type("^C");
    for (;;) pause();
}
