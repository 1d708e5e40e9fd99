// Protection keys, if the processor has them.
// calls: pkey_alloc pkey_mprotect pkey_free
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int key = pkey_alloc(0, 0);
    GUEST_POINT();
    if (key >= 0) CHECK(pkey_mprotect(m, 4096, PROT_READ | PROT_WRITE, key) == 0 && pkey_free(key) == 0);
    m[0] = 1;
    SAY("done");
    FAILS(EINVAL, pkey_free(99));
    SUCCESS();
}
