// Advice on memory.
// calls: madvise mincore
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char *m = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(m, 1, 4 * 4096);
    CHECK(RAW(madvise, m, 4096, MADV_DONTNEED) == 0);
    GUEST_POINT();
    unsigned char in[4];
    CHECK(RAW(mincore, m, 4 * 4096, in) == 0);
    SAY("%d, then %d; in core %d %d", m[0], m[4096], in[0] & 1, in[1] & 1);
    CHECK(RAW(madvise, m, 4 * 4096, MADV_WILLNEED) == 0 && RAW(madvise, m, 4 * 4096, MADV_NOHUGEPAGE) + 1 >= 0);
    FAILS(EINVAL, RAW(madvise, m, 4096, 9999));
    SUCCESS();
}
