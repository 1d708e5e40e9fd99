// Capabilities, dropped.
// calls: capget capset
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct { uint32_t version; int pid; } head = {0x20080522, 0};
    struct { uint32_t effective, permitted, inheritable; } data[2];
    CHECK(RAW(capget, &head, data) == 0);
    GUEST_POINT();
    SAY("effective are permitted: %s", (data[0].effective & ~data[0].permitted) == 0 ? "yes" : "no");
    SAY("root has some, others none: %s", (geteuid() == 0) == (data[0].effective != 0) ? "yes" : "no");
    data[0].effective = data[1].effective = 0;
    CHECK(RAW(capset, &head, data) == 0 && RAW(capget, &head, data) == 0 && data[0].effective == 0);
    head.version = 1;
    FAILS(EINVAL, RAW(capget, &head, data));
    SAY("known version %x", head.version);
    SUCCESS();
}
