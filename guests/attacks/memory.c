// More memory than the room may have: TERN_MIB (2048 if it is not set). It ends early if it is killed for it, which is a good end too.
#include "attack.h"

int main(void) {
    guard();
    const char *given = getenv("TERN_MIB");
    size_t mib = given ? (size_t)atol(given) : 2048, got = 0;
    for (; got < mib; got += 16) {
        char *m = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (m == MAP_FAILED) break;
        for (size_t i = 0; i < 16 << 20; i += 4096) m[i] = 1;
        if (got % 256 == 0) SAY("%zu MiB", got);
        fflush(stdout);
    }
    attempt("all of it", got < mib);
    OVER();
}
