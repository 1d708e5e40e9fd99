// A stack that grows to 4 MB.
// calls: mmap
#include "guest.h"

static int deep(int n) {
    volatile char block[1000];
    memset((char *)block, n, sizeof block);
    if (n == 2000) GUEST_POINT();
    return n ? deep(n - 1) + (block[n % 1000] == (char)n) : 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    SAY("%d", deep(4000));
    SUCCESS();
}
