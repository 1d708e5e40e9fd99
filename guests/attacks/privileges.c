// More rights than it came with.
#include "attack.h"

int main(void) {
    guard();
    struct { uint32_t version; int pid; } head = {0x20080522, 0};
    struct { uint32_t effective, permitted, inheritable; } all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    HELD_OFF(RAW(capset, &head, all));
    HELD_OFF(setuid(0));
    HELD_OFF(setresuid(0, 0, 0));
    HELD_OFF(setgid(0));
    HELD_OFF(setresgid(0, 0, 0));
    gid_t root = 0;
    HELD_OFF(setgroups(1, &root));
    HELD_OFF(prctl(PR_SET_SECUREBITS, 0x2f));
    HELD_OFF(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
    FILE *f = fopen("/proc/self/uid_map", "w");
    errno = 0;
    attempt("writing uid_map", !f || fputs("0 0 1", f) < 0 || fclose(f) != 0);
    char status[4096] = {0};
    int fd = open("/proc/self/status", O_RDONLY);
    CHECK(fd >= 0 && read(fd, status, sizeof status - 1) > 0);
    const char *effective = strstr(status, "CapEff:");
    errno = 0;
    attempt("capabilities in effect", effective && strtoull(effective + 7, NULL, 16) == 0);
    OVER();
}
