// The home's names.
// calls: uname
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct utsname u;
    CHECK(RAW(uname, &u) == 0);
    char name[256];
    CHECK(gethostname(name, sizeof name) == 0 && !strcmp(name, u.nodename));
    GUEST_POINT();
    SAY("%s %s %s %s", u.sysname, u.nodename, u.domainname, u.machine);
    SUCCESS();
}
