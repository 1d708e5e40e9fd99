// A segment of its own, if the kernel has them.
// calls: modify_ldt
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct { uint32_t entry, base, limit, bits; } d = {1, 0, 0xfffff, 0x1 | 0x10 | 0x40};
    long done = RAW(modify_ldt, 1, &d, sizeof d);
    if ((int)done == -1 || (int)done == -ENOSYS) SUCCESS();
    GUEST_POINT();
    char table[64] = {0};
    SAY("entries take %d bytes", (int)RAW(modify_ldt, 0, table, sizeof table));
    SUCCESS();
}
