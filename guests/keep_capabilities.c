// Root becomes an ordinary user, and keeps what it may do (capabilities(7), PR_SET_KEEPCAPS).
// calls: prctl capset capget setresuid
#include "guest.h"
#include <linux/securebits.h>

enum { OVERRIDE = 1 << 1 };

static struct { uint32_t version; int pid; } head = {0x20080522, 0};
typedef struct { uint32_t effective, permitted, inheritable; } half;

static void may_read(const char *when) {
    int fd = open("secret", O_RDONLY);
    SAY("%s: %s", when, fd >= 0 ? "reads it" : strerrorname_np(errno));
    if (fd >= 0) close(fd);
}

static void raise_override(bool on) {
    half data[2] = {{on ? OVERRIDE : 0, OVERRIDE, 0}, {0, 0, 0}};
    CHECK(RAW(capset, &head, data) == 0 && RAW(capget, &head, data) == 0);
    CHECK(data[0].effective == (on ? OVERRIDE : 0) && data[0].permitted == OVERRIDE);
}

static void has(const char *when) {
    half data[2];
    CHECK(RAW(capget, &head, data) == 0);
    SAY("%s: effective %s, permitted %s", when, data[0].effective ? "some" : "none", data[0].permitted ? "some" : "none");
}

int main(int argc, char **argv) {
    if (argc == 2) {
        has("the next program");
        may_read("the next program");
        SAY("kept %d", prctl(PR_GET_KEEPCAPS));
        SUCCESS();
    }
    SAY("kept %d, bits %x", prctl(PR_GET_KEEPCAPS), prctl(PR_GET_SECUREBITS));
    if (getuid() != 0) {
        GUEST_POINT();
        SUCCESS();
    }
    put_file("secret", "x");
    CHECK(chmod("secret", 0) == 0 && chmod(".", 0777) == 0);
    CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
    SAY("kept %d, bits %x", prctl(PR_GET_KEEPCAPS), prctl(PR_GET_SECUREBITS));
    CHECK(setresuid(1000, 1000, 1000) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
    has("another user");
    may_read("not raised");
    raise_override(true);
    may_read("raised");
    GUEST_POINT();
    may_read("still");
    raise_override(false);
    may_read("lowered");
    raise_override(true);
    may_read("raised again");
    SAY("kept %d", prctl(PR_GET_KEEPCAPS));
    CHECK(prctl(PR_SET_KEEPCAPS, 0) == 0 && prctl(PR_GET_KEEPCAPS) == 0);
    FAILS(EPERM, prctl(PR_SET_SECUREBITS, SECBIT_NOROOT));
    FAILS(EPERM, prctl(PR_CAPBSET_DROP, 3, 0, 0, 0));
    SAY("ambient %d", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 1, 0, 0));
    CHECK(fflush(stdout) == 0);
    execl("/proc/self/exe", argv[0], "again", NULL);
    CHECK(!"executed");
}
