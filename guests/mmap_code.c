// Code made at run time.
// calls: mmap mprotect
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    static const unsigned char code[] = {0x8d, 0x04, 0x37, 0xc3}; // lea eax, [rdi + rsi]; ret
    unsigned char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(m, code, sizeof code);
    CHECK(mprotect(m, 4096, PROT_READ | PROT_EXEC) == 0);
    GUEST_POINT();
    int (*add)(int, int) = (int (*)(int, int))m;
    SAY("%d", add(40, 2));
    SUCCESS();
}
