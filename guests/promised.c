// The same promise, made before it is moved.
// calls: prctl
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    GUEST_POINT();
    const char *line = strstr(get_file("/proc/self/status"), "NoNewPrivs:");
    SAY("promised: %d, %.13s", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), line ? line : "");
    SUCCESS();
}
