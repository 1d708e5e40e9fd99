// A fault that a handler mends, on another stack.
// calls: rt_sigaction rt_sigreturn sigaltstack
#include "guest.h"

static char *page;
static volatile long offset;
static volatile int code, on_stack;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    offset = (char *)info->si_addr - page;
    code = info->si_code;
    stack_t now;
    sigaltstack(NULL, &now);
    on_stack = now.ss_flags & SS_ONSTACK;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    static char stack[65536];
    stack_t s = {.ss_sp = stack, .ss_size = sizeof stack}, old;
    CHECK(RAW(sigaltstack, &s, NULL) == 0);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    CHECK(sigaction(SIGSEGV, &a, NULL) == 0);
    GUEST_POINT();
    page[17] = 5;
    SAY("written %d, fault at +%ld, code %d, %s stack", page[17], (long)offset, code, on_stack ? "other" : "same");
    CHECK(RAW(sigaltstack, NULL, &old) == 0 && old.ss_size == sizeof stack);
    SUCCESS();
}
