// Reads all of its standard input.
// calls: read
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char b[777];
    uint32_t sum = 2166136261u;
    long total = 0;
    for (ssize_t n; (n = read(0, b, sizeof b)) > 0; total += n) {
        for (ssize_t i = 0; i < n; i++) sum = (sum ^ (uint8_t)b[i]) * 16777619u;
        if (total < 50000 && total + n >= 50000) GUEST_POINT();
    }
    SAY("%ld bytes, sum %08x", total, sum);
    SAY("still at the end: %zd", read(0, b, 1));
    SUCCESS();
}
