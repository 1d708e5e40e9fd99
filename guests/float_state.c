// Floating point across handlers.
// calls: rt_sigreturn
#include "guest.h"

static void spoil(int signal) {
    (void)signal;
    volatile double z = 3.0;
    for (int i = 0; i < 10; i++) z /= 7.0;
    __builtin_ia32_ldmxcsr(0x7f80);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_handler = spoil};
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
    double x = 1.0, y;
    long double wide = 1.0L / 3.0L;
    __asm__ volatile("movapd %%xmm0, %%xmm0" ::: "memory");
    for (int i = 1; i < 1000; i++) {
        x = x * 1.0001 + 1.0 / i;
        if (i % 100 == 0) CHECK(raise(SIGUSR1) == 0);
        if (i == 500) GUEST_POINT();
    }
    unsigned mxcsr = __builtin_ia32_stmxcsr();
    y = (double)(wide * 3.0L);
    SAY("%.17g %.17g rounding %x", x, y, (mxcsr >> 13) & 3);
    SUCCESS();
}
