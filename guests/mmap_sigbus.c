// Beyond the end of a mapped file.
// calls: mmap rt_sigaction
#include "guest.h"

static sigjmp_buf back;
static char *base;
static volatile long at;
static volatile int code;

static void on_bus(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    at = (char *)info->si_addr - base;
    code = info->si_code;
    siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "short");
    int fd = open("f", O_RDWR);
    char *m = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    struct sigaction a = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &a, NULL) == 0);
    GUEST_POINT();
    base = m;
    if (!sigsetjmp(back, 1)) SAY("%d", m[5000]);
    else SAY("SIGBUS at +%ld, code %d", (long)at, code);
    SUCCESS();
}
