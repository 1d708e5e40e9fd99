// Mappings moved and resized.
// calls: mremap
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(m, "kept");
    char *big = mremap(m, 4096, 1 << 20, MREMAP_MAYMOVE);
    CHECK(big != MAP_FAILED && big[4096] == 0);
    GUEST_POINT();
    SAY("%s", big);
    char *small = mremap(big, 1 << 20, 4096, 0);
    CHECK(small == big);
    char *place = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(small, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
    SAY("%s", place);
    CHECK(mremap((void *)4096, 4096, 8192, 0) == MAP_FAILED && errno == EFAULT);
    SUCCESS();
}
