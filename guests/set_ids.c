// Users changed: root becomes an ordinary user.
// calls: setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    uid_t u = getuid();
    gid_t g = getgid();
    CHECK(RAW(setreuid, -1, -1) == 0 && RAW(setregid, -1, -1) == 0 && RAW(setresuid, u, u, u) == 0 && RAW(setresgid, g, g, g) == 0);
    CHECK(RAW(setuid, u) == 0 && RAW(setgid, g) == 0);
    SAY("fs ids %s", RAW(setfsuid, u) == u && RAW(setfsgid, g) == g ? "as before" : "others");
    GUEST_POINT();
    if (u == 0) {
        put_file("secret", "x");
        CHECK(chmod("secret", 0600) == 0);
        gid_t groups[2] = {100, 200};
        CHECK(RAW(setgroups, 2, groups) == 0 && getgroups(2, groups) == 2 && groups[1] == 200);
        CHECK(RAW(setresgid, 500, 500, 500) == 0 && RAW(setresuid, 1000, 1000, 1000) == 0);
        CHECK(getuid() == 1000 && getegid() == 500 && RAW(setuid, 0) == -1 && errno == EPERM);
        CHECK(open("secret", O_RDONLY) == -1 && errno == EACCES);
    } else
        CHECK(RAW(setuid, u + 1) == -1 && errno == EPERM && RAW(setgroups, 0, NULL) == -1 && errno == EPERM);
    SAY("no way back");
    SUCCESS();
}
