// Barriers between threads.
// calls: membarrier rseq
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(RAW(membarrier, 0, 0, 0) > 0);
    CHECK(RAW(membarrier, 1 << 4, 0, 0) == 0 && RAW(membarrier, 1 << 3, 0, 0) == 0);
    GUEST_POINT();
    SAY("private barriers work");
    FAILS(EINVAL, RAW(membarrier, 12345, 0, 0));
    SUCCESS();
}
