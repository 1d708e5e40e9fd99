// Capabilities, dropped: they are gone for good.
// calls: capget capset prctl
#include "guest.h"

enum { OWNER = 0, OVERRIDE = 1, CLOCK = 25, LOG = 34 };

static struct { uint32_t version; int pid; } head = {0x20080522, 0};
typedef struct { uint32_t effective, permitted, inheritable; } half;

static uint64_t shown(const char *name) {
    const char *line = strstr(get_file("/proc/self/status"), name);
    CHECK(line);
    return strtoull(line + strlen(name) + 1, NULL, 16);
}

static void same(half *data) {
    CHECK(RAW(capget, &head, data) == 0);
    CHECK(shown("CapEff") == (data[0].effective | (uint64_t)data[1].effective << 32));
    CHECK(shown("CapPrm") == (data[0].permitted | (uint64_t)data[1].permitted << 32));
}

static void has(const char *when, int which) {
    half data[2];
    same(data);
    SAY("%s: %d effective %d, permitted %d, bounding %d", when, which, data[which / 32].effective >> which % 32 & 1,
        data[which / 32].permitted >> which % 32 & 1, prctl(PR_CAPBSET_READ, which, 0, 0, 0));
}

static void drop(int which) {
    half data[2];
    same(data);
    data[which / 32].effective &= ~(1u << which % 32);
    data[which / 32].permitted &= ~(1u << which % 32);
    CHECK(RAW(capset, &head, data) == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    half data[2];
    CHECK(RAW(capget, &head, data) == 0);
    SAY("effective are permitted: %s", (data[0].effective & ~data[0].permitted) == 0 ? "yes" : "no");
    SAY("root has some, others none: %s", (geteuid() == 0) == (data[0].effective != 0) ? "yes" : "no");
    if (geteuid() == 0) {
        drop(OWNER), drop(LOG);
        CHECK(prctl(PR_CAPBSET_DROP, LOG, 0, 0, 0) == 0);
    }
    GUEST_POINT();
    has("dropped before", OWNER), has("dropped before", LOG), has("not yet", CLOCK);
    put_file("file", "x");
    if (geteuid() == 0) {
        drop(CLOCK), drop(OVERRIDE);
        CHECK(prctl(PR_CAPBSET_DROP, CLOCK, 0, 0, 0) == 0);
        FAILS(EPERM, chown("file", 1000, 1000));
    }
    has("dropped after", CLOCK), has("dropped after", OVERRIDE);
    same(data);
    data[0].permitted |= 1;
    CHECK(RAW(capset, &head, data) == -1 && errno == EPERM);
    data[0].effective = data[1].effective = data[0].permitted = data[1].permitted = 0;
    CHECK(RAW(capset, &head, data) == 0);
    same(data);
    CHECK(data[0].effective == 0 && data[1].permitted == 0);
    CHECK(RAW(capget, &head, NULL) == 0);
    head.pid = getppid();
    SAY("another's: %s", RAW(capget, &head, data) == 0 ? "known" : "unknown");
    head.pid = 0, head.version = 0x19980330;
    CHECK(RAW(capget, &head, data) == 0 && data[0].permitted == 0);
    head.version = 1;
    FAILS(EINVAL, RAW(capget, &head, data));
    SAY("known version %x", head.version);
    SUCCESS();
}
