// Lines typed, edited and ended.
// calls: read
// terminal: yes
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char b[64] = {0};
    please_type("abX\x7f" "c$");
    CHECK(read(0, b, sizeof b) == 4);
    SAY("line: %.3s", b);
    GUEST_POINT();
    please_type("wrong^Uright$");
    CHECK(read(0, b, sizeof b) == 6);
    SAY("line: %.5s", b);
    please_type("two$lines$");
    CHECK(read(0, b, 2) == 2 && read(0, b + 2, 62) == 2 && !memcmp(b, "two\n", 4) && read(0, b, 64) == 6);
    please_type("^D");
    SAY("end: %zd", read(0, b, sizeof b));
    please_type("more^D");
    SAY("without an end of line: %zd", read(0, b, sizeof b));
    SUCCESS();
}
