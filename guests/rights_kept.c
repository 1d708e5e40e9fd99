// Short sequences of all calls that change users, groups and capabilities, each in a child: what every call says, what the child may do then, and what its next program may.
// calls: setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capget capset prctl
#include "guest.h"
#include <linux/securebits.h>

enum { SEQUENCES = 120, LONGEST = 6 };

typedef struct { uint32_t effective, permitted, inheritable; } half;
static struct { uint32_t version; int pid; } head = {0x20080522, 0};

static void get(half *data) { CHECK(RAW(capget, &head, data) == 0); }

// Effective capabilities are those permitted, or none; the inheritable ones stay as they are.
static long raise_all(bool on) {
    half data[2];
    get(data);
    for (int i = 0; i < 2; i++) data[i].effective = on ? data[i].permitted : 0;
    return RAW(capset, &head, data);
}

// Gives up all but CHOWN, DAC_OVERRIDE, SETGID, SETUID and SETPCAP.
static long give_up(void) {
    half data[2];
    get(data);
    data[0].effective &= 0x1c3, data[0].permitted &= 0x1c3, data[1].effective = data[1].permitted = 0;
    return RAW(capset, &head, data);
}

static long inherit(void) {
    half data[2];
    get(data);
    data[0].inheritable |= data[0].permitted & 2;
    return RAW(capset, &head, data);
}

static const gid_t GROUPS[] = {7, 500};

#define STEPS                                                                       \
    STEP(prctl(PR_SET_KEEPCAPS, 1))                                                 \
    STEP(prctl(PR_SET_KEEPCAPS, 0))                                                 \
    STEP(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP))                          \
    STEP(prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS))                                \
    STEP(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT))                                   \
    STEP(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 1, 0, 0))                      \
    STEP(prctl(PR_CAPBSET_DROP, 1, 0, 0, 0))                                        \
    STEP(raise_all(true))                                                           \
    STEP(raise_all(false))                                                          \
    STEP(give_up())                                                                 \
    STEP(inherit())                                                                 \
    STEP(RAW(setresuid, 1000, 1000, 1000))                                          \
    STEP(RAW(setresuid, 1000, 1000, 0))                                             \
    STEP(RAW(setresuid, -1, 1000, -1))                                              \
    STEP(RAW(setresuid, -1, 0, -1))                                                 \
    STEP(RAW(setreuid, 1001, 1000))                                                 \
    STEP(RAW(setreuid, 0, 1000))                                                    \
    STEP(RAW(setuid, 1000))                                                         \
    STEP(RAW(setuid, 0))                                                            \
    STEP(RAW(setfsuid, 1000))                                                       \
    STEP(RAW(setfsuid, 0))                                                          \
    STEP(RAW(setresgid, 500, 500, 500))                                             \
    STEP(RAW(setresgid, -1, 500, -1))                                               \
    STEP(RAW(setregid, 501, 500))                                                   \
    STEP(RAW(setgid, 501))                                                          \
    STEP(RAW(setfsgid, 500))                                                        \
    STEP(RAW(setgroups, 2, GROUPS))                                                 \
    STEP(RAW(setgroups, 0, NULL))

#define STEP(call) #call,
static const char *const NAMES[] = {STEPS};
#undef STEP
enum { COUNT = sizeof NAMES / sizeof *NAMES };

static long take(int step) {
    int at = 0;
#define STEP(call) if (step == at++) return call;
    STEPS
#undef STEP
    return -1;
}

static const char *may(const char *path, int flags) {
    int fd = open(path, flags, 0644);
    if (fd < 0) return strerrorname_np(errno);
    close(fd);
    return "yes";
}

static void say(const char *when) {
    half data[2];
    uid_t u[3];
    gid_t g[3], all[32];
    get(data);
    CHECK(getresuid(u, u + 1, u + 2) == 0 && getresgid(g, g + 1, g + 2) == 0);
    int groups = getgroups(32, all);
    long fs_user = RAW(setfsuid, -1), fs_group = RAW(setfsgid, -1);
    printf("%s: users %d %d %d %ld, groups %d %d %d %ld (", when, u[0], u[1], u[2], fs_user, g[0], g[1], g[2], fs_group);
    for (int i = 0; i < groups; i++) printf(" %d", all[i]);
    printf(" ), effective %x %x, permitted %x %x, inheritable %x, keep %d, bits %x", data[0].effective, data[1].effective,
           data[0].permitted, data[1].permitted, data[0].inheritable, prctl(PR_GET_KEEPCAPS), prctl(PR_GET_SECUREBITS));
    printf("; root's %s, group's %s, ", may("secret", O_RDONLY), may("group", O_RDONLY));
    struct stat made;
    char name[32];
    snprintf(name, sizeof name, "made-%s", when);
    const char *makes = may(name, O_CREAT | O_EXCL | O_WRONLY);
    printf("makes %s", makes);
    if (stat(name, &made) == 0) printf(" of %d %d, removes %d", made.st_uid, made.st_gid, unlink(name));
    printf("\n");
    CHECK(!fflush(stdout));
}

static void walk(const char *program, const int *steps, int count) {
    CHECK(!fflush(stdout));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < count; i++) {
            errno = 0;
            long result = take(steps[i]);
            printf("  %s = %ld%s%s\n", NAMES[steps[i]], result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "");
        }
        say("then");
        execl("/proc/self/exe", program, "say", NULL);
        printf("not executed: %s\n", strerrorname_np(errno));
        fflush(stdout);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("ended %x", status);
}

static int step_named(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(NAMES[i], name) == 0) return i;
    CHECK(!"a step of that name");
    return -1;
}

// What setpriv --reuid --regid does, and others.
static void walk_known(const char *program) {
    static const char *const KNOWN[][LONGEST] = {
        {"prctl(PR_SET_KEEPCAPS, 1)", "RAW(setresuid, 1000, 1000, 1000)", "raise_all(true)", "RAW(setresgid, 500, 500, 500)", "RAW(setgroups, 2, GROUPS)"},
        {"prctl(PR_SET_KEEPCAPS, 1)", "RAW(setresuid, 1000, 1000, 1000)", "RAW(setresgid, 500, 500, 500)", "raise_all(true)", "raise_all(false)"},
        {"prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)", "RAW(setresuid, 1000, 1000, 1000)", "RAW(setresgid, 500, 500, 500)", "RAW(setuid, 0)"},
        {"RAW(setresuid, -1, 1000, -1)", "raise_all(true)", "RAW(setgid, 501)", "RAW(setresuid, -1, 0, -1)", "RAW(setgroups, 0, NULL)"},
        {"RAW(setfsuid, 1000)", "RAW(setfsgid, 500)", "raise_all(true)"},
        {"inherit()", "prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 1, 0, 0)", "prctl(PR_SET_KEEPCAPS, 1)", "RAW(setuid, 1000)", "RAW(setgid, 501)"},
        {"give_up()", "RAW(setgroups, 2, GROUPS)"},
        {"prctl(PR_SET_SECUREBITS, SECBIT_NOROOT)", "give_up()"},
        {"prctl(PR_CAPBSET_DROP, 1, 0, 0, 0)"},
        {"prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS)", "RAW(setuid, 1000)", "raise_all(true)", "RAW(setreuid, 1001, 1000)"},
        {"RAW(setreuid, 0, 1000)", "raise_all(true)"},
        {"RAW(setresuid, 1000, 1000, 0)", "RAW(setresgid, 500, 500, 500)", "RAW(setresuid, -1, 0, -1)", "RAW(setresgid, 500, 500, 500)"},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        int steps[LONGEST], count = 0;
        for (; count < LONGEST && KNOWN[i][count]; count++) steps[count] = step_named(KNOWN[i][count]);
        SAY("known %zu", i);
        walk(program, steps, count);
    }
}

// Each thread has rights of its own.
static void *other_user(void *unused) {
    CHECK(RAW(setfsgid, 500) == 0 && RAW(setfsuid, 1000) == 0);
    SAY("thread: root's %s, group's %s", may("secret", O_RDONLY), may("group", O_RDONLY));
    return unused;
}

int main(int argc, char **argv) {
    if (argc == 2) {
        say("next");
        return 0;
    }
    put_file("secret", "x"), put_file("group", "x");
    CHECK(chmod("secret", 0600) == 0 && chmod("group", 0640) == 0 && chmod(".", 0777) == 0);
    if (getuid() == 0) CHECK(chown("group", 0, 500) == 0);
    walk_known(argv[0]);
    uint32_t seed = 1;
    for (int i = 0; i < SEQUENCES; i++) {
        if (i == SEQUENCES / 2) GUEST_POINT();
        int steps[LONGEST], count = 2 + i % (LONGEST - 1);
        for (int j = 0; j < count; j++) seed = seed * 1664525 + 1013904223, steps[j] = (seed >> 16) % COUNT;
        SAY("sequence %d", i);
        walk(argv[0], steps, count);
    }
    pthread_t thread;
    if (getuid() == 0) {
        CHECK(pthread_create(&thread, NULL, other_user, NULL) == 0 && pthread_join(thread, NULL) == 0);
        SAY("its process: root's %s", may("secret", O_RDONLY));
    }
    SUCCESS();
}
