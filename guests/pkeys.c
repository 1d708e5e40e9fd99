// Protection keys, if the processor has them: which are taken, of which memory they are, and what the thread may do with it.
// calls: pkey_alloc pkey_mprotect pkey_free
#include "guest.h"

static volatile int denied_key;
static char *denied;

static void on_segv(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    denied_key = info->si_code == SEGV_PKUERR ? (int)info->si_pkey : -1;
    /* The handler may; the thread, again when it returns, tries once more. */
    mprotect(denied, 4096, PROT_READ | PROT_WRITE);
    pkey_mprotect(denied, 4096, PROT_READ | PROT_WRITE, 0);
}

static char *page(void) { return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    char *open = page(), *m = page();
    denied = page();
    strcpy(open, "open"), strcpy(denied, "denied");
    int first = pkey_alloc(0, 0), second = pkey_alloc(0, 0), third = pkey_alloc(0, PKEY_DISABLE_WRITE);
    int has = third >= 0;
    if (has) {
        CHECK(pkey_mprotect(open, 4096, PROT_READ | PROT_WRITE, first) == 0);
        CHECK(pkey_mprotect(denied, 4096, PROT_READ | PROT_WRITE, third) == 0);
        CHECK(pkey_free(second) == 0);
    }
    GUEST_POINT();
    strcat(open, "ed");
    CHECK(strcmp(open, "opened") == 0 && strcmp(denied, "denied") == 0);
    if (has) {
        denied[0] = 'D';
        CHECK(denied_key == third);
        CHECK(pkey_get(first) == 0 && pkey_get(third) == PKEY_DISABLE_WRITE);
        CHECK(pkey_alloc(0, 0) == second);
        CHECK(pkey_mprotect(m, 4096, PROT_READ | PROT_WRITE, second) == 0);
        CHECK(pkey_free(first) == 0 && pkey_free(second) == 0 && pkey_free(third) == 0);
    }
    m[0] = 1;
    SAY("done");
    FAILS(EINVAL, pkey_free(99));
    SUCCESS();
}
