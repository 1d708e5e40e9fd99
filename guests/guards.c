// Guard regions (MADV_GUARD_INSTALL, since Linux 6.13): who touches one gets SIGSEGV, and what is beside it is as it was.
// calls: madvise
#include "guest.h"

enum { PAGE = 4096, PAGES = 64, MADV_GUARD_INSTALL_ = 102, MADV_GUARD_REMOVE_ = 103 };
static sigjmp_buf touched;
static void got(int signal) { (void)signal, siglongjmp(touched, 1); }

/// What a page holds; -1 if it is guarded.
static int holds(const char *page) {
    if (sigsetjmp(touched, 1)) return -1;
    return *(const volatile unsigned char *)page;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(signal(SIGSEGV, got) != SIG_ERR);
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (int i = 0; i < PAGES; i++) memset(memory + i * PAGE, i + 1, PAGE);
    // A kernel without them says so; then there is nothing to lose.
    bool has = madvise(memory + 3 * PAGE, 2 * PAGE, MADV_GUARD_INSTALL_) == 0;
    if (has) CHECK(madvise(memory + 40 * PAGE, PAGE, MADV_GUARD_INSTALL_) == 0);
    GUEST_POINT();
    for (int i = 0; i < PAGES; i++) {
        bool guarded = has && (i == 3 || i == 4 || i == 40);
        CHECK(holds(memory + i * PAGE) == (guarded ? -1 : i + 1));
    }
    if (has) {
        CHECK(madvise(memory + 3 * PAGE, PAGE, MADV_GUARD_REMOVE_) == 0);
        CHECK(holds(memory + 3 * PAGE) == 0 && holds(memory + 4 * PAGE) == -1);
    }
    SUCCESS();
}
