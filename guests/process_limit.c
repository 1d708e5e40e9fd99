// The limit on a user's processes is home's, wherever it is asked for, set and felt.
// calls: getrlimit setrlimit prlimit64 fork
#include "guest.h"

enum { A_USER = 54321 };

static void shows(const char *when, rlim_t soft) {
    struct rlimit l, m;
    CHECK(RAW(getrlimit, RLIMIT_NPROC, &l) == 0 && RAW(prlimit64, 0, RLIMIT_NPROC, NULL, &m) == 0);
    const char *line = strstr(get_file("/proc/self/limits"), "Max processes");
    CHECK(line);
    SAY("%s: %d %d %d", when, l.rlim_cur == soft, m.rlim_cur == soft, strtoull(line + strlen("Max processes"), NULL, 10) == soft);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct rlimit l, was;
    int root = geteuid() == 0, status;
    CHECK(getrlimit(RLIMIT_NPROC, &l) == 0);
    l.rlim_cur = 3000;
    CHECK(setrlimit(RLIMIT_NPROC, &l) == 0);
    GUEST_POINT();
    shows("set before", 3000);
    l.rlim_cur = 2000, l.rlim_max = 2500;
    CHECK(RAW(prlimit64, getpid(), RLIMIT_NPROC, &l, &was) == 0 && was.rlim_cur == 3000);
    shows("set after", 2000);
    l.rlim_cur = 2600;
    FAILS(EINVAL, RAW(setrlimit, RLIMIT_NPROC, &l));
    // One that has no right to more than its limit.
    CHECK(!fflush(stdout));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(!root || (setgid(A_USER) == 0 && setuid(A_USER) == 0));
        CHECK(RAW(prlimit64, 0, RLIMIT_NPROC, NULL, &l) == 0);
        SAY("inherited: %d %d", (int)l.rlim_cur, (int)l.rlim_max);
        l.rlim_cur = 1;
        CHECK(setrlimit(RLIMIT_NPROC, &l) == 0);
        FAILS(EAGAIN, fork());
        l.rlim_cur = 2000;
        CHECK(setrlimit(RLIMIT_NPROC, &l) == 0);
        CHECK(!fflush(stdout));
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) _exit(7);
        CHECK(waitpid(grandchild, &status, 0) == grandchild && WEXITSTATUS(status) == 7);
        CHECK(!fflush(stdout));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    SAY("ended: %d", status);
    SUCCESS();
}
