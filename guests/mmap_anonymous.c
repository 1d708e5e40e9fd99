// Memory of its own.
// calls: mmap munmap mprotect brk
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    size_t page = 4096, size = 64 * page;
    char *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    for (size_t i = 0; i < size; i += page) CHECK(m[i] == 0), m[i] = (char)(i / page);
    GUEST_POINT();
    CHECK(RAW(mprotect, m, page, PROT_READ) == 0 && RAW(munmap, m + page, page) == 0);
    CHECK(m[2 * page] == 2);
    char *again = mmap(m + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(again == m + page && again[0] == 0);
    CHECK(mmap(m, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST);
    char *b = (char *)RAW(brk, 0);
    CHECK((char *)RAW(brk, b + 3 * page) == b + 3 * page);
    memset(b, 7, 3 * page);
    CHECK((char *)RAW(brk, b) == b);
    FAILS(EINVAL, RAW(munmap, m + 1, page));
    FAILS(ENOMEM, RAW(mprotect, (void *)4096, page, PROT_READ));
    SUCCESS();
}
