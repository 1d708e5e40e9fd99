// Around the filter: filters of its own, 32-bit calls, x32 numbers.
#include "attack.h"

int main(void) {
    guard();
    struct { uint16_t code; uint8_t jt, jf; uint32_t k; } allow = {6, 0, 0, 0x7fff0000};
    struct { uint16_t len; void *filter; } program = {1, &allow};
    HELD_OFF(RAW(seccomp, 1, 0, &program));
    HELD_OFF(RAW(seccomp, 1, 8, &program));
    HELD_OFF(prctl(PR_SET_SECCOMP, 2, &program));
    long r;
    // mkdir(path) as the 32-bit call 39: the path must lie below 4 GiB.
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | 0x40, -1, 0);
    strcpy(low, "made-by-int80");
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(39), "b"(low), "c"(0700), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    errno = 0;
    attempt("a 32-bit mkdir", r < 0 && access("made-by-int80", F_OK) != 0);
    // socket(AF_INET, SOCK_STREAM, 0) as the 32-bit call 359.
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(359), "b"(2), "c"(1), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    errno = 0;
    attempt("a 32-bit socket", r < 0);
    HELD_OFF(syscall(0x40000000 + SYS_getpid));
    HELD_OFF(syscall(0x40000000 + SYS_socket, AF_INET, SOCK_STREAM, 0));
    HELD_OFF(syscall(0x40000000 + 521, PTRACE_TRACEME, 0, 0, 0));
    HELD_OFF(syscall(547));
    OVER();
}
