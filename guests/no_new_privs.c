// A program that promises to gain nothing by what it executes: only its own promise counts, which lasts.
// calls: prctl
#include "guest.h"

static void say(const char *when) {
    const char *line = strstr(get_file("/proc/self/status"), "NoNewPrivs:");
    CHECK(line);
    SAY("%s: %d (%.1s)", when, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), line + strlen("NoNewPrivs:\t"));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    say("before");
    GUEST_POINT();
    say("still");
    FAILS(EINVAL, prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    FAILS(EINVAL, prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    say("promised");
    CHECK(fflush(stdout) == 0);
    pid_t child = fork();
    if (child == 0) {
        say("a child");
        fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    SUCCESS();
}
