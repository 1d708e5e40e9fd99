// Shared memory that nobody shares yet.
// calls: mmap
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    *m = 41;
    GUEST_POINT();
    ++*m;
    SAY("%d", *m);
    SUCCESS();
}
