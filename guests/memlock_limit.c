// The limit on locked memory: not for those who may lock all.
// calls: getrlimit setrlimit prlimit64 mlock mlock2 mlockall
#include "guest.h"

enum { LIMIT = 64 << 10, MUCH = 1 << 20, IPC_LOCK = 14 };

static void shows(const char *when, rlim_t soft) {
    struct rlimit l, m;
    CHECK(RAW(getrlimit, RLIMIT_MEMLOCK, &l) == 0 && RAW(prlimit64, 0, RLIMIT_MEMLOCK, NULL, &m) == 0);
    const char *line = strstr(get_file("/proc/self/limits"), "Max locked memory");
    CHECK(line);
    SAY("%s: %d %d %d", when, l.rlim_cur == soft, m.rlim_cur == soft, strtoull(line + strlen("Max locked memory"), NULL, 10) == soft);
}

static void set(rlim_t soft) {
    struct rlimit l;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &l) == 0);
    l.rlim_cur = soft;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &l) == 0);
}

static void locks(const char *who, char *memory) {
    int whole = RAW(mlock, memory, MUCH), error = errno;
    SAY("%s locks much: %s", who, whole == 0 ? "yes" : strerrorname_np(error));
    if (whole == 0) CHECK(munlock(memory, MUCH) == 0);
    CHECK(RAW(mlock2, memory, LIMIT / 2, 0) == 0 && munlock(memory, LIMIT / 2) == 0);
}

static struct { uint32_t version; int pid; } head = {0x20080522, 0};
typedef struct { uint32_t effective, permitted, inheritable; } half;

static void may_lock(int may) {
    half data[2];
    CHECK(RAW(capget, &head, data) == 0);
    data[0].effective = may ? data[0].effective | 1 << IPC_LOCK : data[0].effective & ~(1u << IPC_LOCK);
    CHECK(RAW(capset, &head, data) == 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int root = geteuid() == 0, status;
    char *memory = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    set(LIMIT);
    GUEST_POINT();
    shows("set before", LIMIT);
    // As at home: whoever has CAP_IPC_LOCK may.
    half data[2];
    CHECK(RAW(capget, &head, data) == 0);
    int may = data[0].effective >> IPC_LOCK & 1;
    locks(may ? "one who may" : "one who may not", memory);
    set(LIMIT / 2 + 4096);
    shows("set after", LIMIT / 2 + 4096);
    locks("the same", memory);
    if (may) {
        may_lock(0), locks("without the capability", memory);
        set(LIMIT), locks("with another limit", memory);
        may_lock(1), locks("with it again", memory);
    }
    if (root) {
        CHECK(!fflush(stdout));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(setgid(54321) == 0 && setuid(54321) == 0);
            shows("another user", LIMIT), locks("another user", memory);
            set(0);
            FAILS(EPERM, RAW(mlock, memory, 4096));
            CHECK(!fflush(stdout));
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    SUCCESS();
}
