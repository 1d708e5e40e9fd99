// What the kernel adds when it looks for a process to kill: home's, and children's.
// calls: open write
#include "guest.h"

static int wanted(const char *value) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_TRUNC);
    CHECK(fd >= 0);
    int done = write(fd, value, strlen(value)) == (ssize_t)strlen(value) ? 0 : errno;
    CHECK(close(fd) == 0);
    return done;
}

static int shown(const char *path) {
    return atoi(get_file(path));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int status;
    char path[64];
    CHECK(wanted("321\n") == 0);
    GUEST_POINT();
    SAY("set before: %d", shown("/proc/self/oom_score_adj"));
    CHECK(wanted("432") == 0);
    SAY("set after: %d", shown("/proc/self/oom_score_adj"));
    SAY("too much: %s, no number: %s", strerrorname_np(wanted("1001")), strerrorname_np(wanted("x")));
    int least = wanted("-1000");
    SAY("least: %s, then %d", least ? strerrorname_np(least) : "allowed", shown("/proc/self/oom_score_adj"));
    CHECK(wanted("432") == 0);
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", getpid());
    // A child has its parent's, and its own from then on.
    CHECK(!fflush(stdout));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(shown("/proc/self/oom_score_adj") == 432 && wanted("500") == 0);
        _exit(shown("/proc/self/oom_score_adj") == 500 && shown(path) == 432 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    SAY("child: %d, still: %d", status, shown(path));
    // Another's is for those who may.
    struct stat st;
    CHECK(stat("/proc/self/oom_score_adj", &st) == 0);
    SAY("mode %o", st.st_mode & 07777);
    if (geteuid() == 0) {
        CHECK(!fflush(stdout));
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(setgid(54321) == 0 && setuid(54321) == 0);
            FAILS(EACCES, open(path, O_WRONLY));
            CHECK(!fflush(stdout));
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child);
    }
    SUCCESS();
}
