// Who one is.
// calls: getuid geteuid getgid getegid getresuid getresgid getgroups
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    uid_t r, e, s;
    gid_t a, b, c, groups[64];
    CHECK(getresuid(&r, &e, &s) == 0 && getresgid(&a, &b, &c) == 0);
    CHECK(r == getuid() && e == geteuid() && a == getgid() && b == getegid());
    GUEST_POINT();
    SAY("uid %u %u %u gid %u %u %u", r, e, s, a, b, c);
    int n = getgroups(64, groups);
    for (int i = 0; i < n; i++) printf("group %u\n", groups[i]);
    CHECK(getgroups(0, NULL) == n);
    SUCCESS();
}
