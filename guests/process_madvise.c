// Advice on memory through a descriptor of oneself.
// calls: process_madvise
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m[0] = 42;
    int self = RAW(pidfd_open, getpid(), 0);
    struct iovec v = {m, 4096};
    CHECK(RAW(process_madvise, self, &v, 1, MADV_COLD, 0) == 4096);
    GUEST_POINT();
    SAY("%d", m[0]);
    FAILS(EBADF, RAW(process_madvise, 999, &v, 1, MADV_COLD, 0));
    SUCCESS();
}
