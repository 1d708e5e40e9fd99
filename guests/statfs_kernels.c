// File systems that keep nothing, and what is no file: all say something of themselves.
// calls: statfs fstatfs
#include "guest.h"

static void tell(const char *name, int result, const struct statfs *found) {
    SAY("%s: %d, %d", name, result, result == 0 && found->f_bsize > 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct statfs found;
    tell("/dev", statfs("/dev", &found), &found);
    GUEST_POINT();
    int p[2], s = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(pipe(p) == 0 && s >= 0);
    tell("/proc", statfs("/proc", &found), &found);
    tell("/proc/self", statfs("/proc/self", &found), &found);
    tell("/dev/null", statfs("/dev/null", &found), &found);
    tell("a pipe", fstatfs(p[0], &found), &found);
    tell("a socket", fstatfs(s, &found), &found);
    SUCCESS();
}
