// Writes 460 kB to its standard output.
// calls: write writev
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    static char line[65];
    memset(line, '.', 63), line[63] = '\n';
    for (int i = 0; i < 4096; i++) {
        line[i % 63] = (char)('a' + i % 26);
        for (size_t at = 0; at < 64;) {
            ssize_t n = write(1, line + at, 64 - at);
            CHECK(n > 0);
            at += (size_t)n;
        }
        line[i % 63] = '.';
        if (i == 2000) GUEST_POINT();
    }
    static char big[200000];
    memset(big, '#', sizeof big);
    big[sizeof big - 1] = '\n';
    struct iovec v[2] = {{big, 100000}, {big + 100000, 100000}};
    ssize_t n = writev(1, v, 2);
    CHECK(n == sizeof big);
    SUCCESS();
}
