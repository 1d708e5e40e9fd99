// Signals of the processor.
// calls: rt_sigaction
#include "guest.h"

static sigjmp_buf back;
static volatile int number, code;

static void on_fpe(int signal, siginfo_t *info, void *context) {
    (void)context;
    number = signal;
    code = info->si_code;
    if (signal != SIGTRAP) siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_sigaction = on_fpe, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGFPE, &a, NULL) == 0 && sigaction(SIGILL, &a, NULL) == 0 && sigaction(SIGTRAP, &a, NULL) == 0);
    volatile int zero = 0;
    GUEST_POINT();
    if (!sigsetjmp(back, 1)) SAY("%d", 1 / zero);
    SAY("signal %d code %d", number, code);
    if (!sigsetjmp(back, 1)) __asm__ volatile("ud2");
    SAY("signal %d code %d", number, code);
    __asm__ volatile("int3");
    SAY("signal %d code %d", number, code);
    SUCCESS();
}
