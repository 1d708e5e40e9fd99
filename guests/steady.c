// Every call says what it must, however often and whenever its process is moved. For so long as STEADY_MS says.
// calls: access getppid fcntl lseek read write pread64 pwrite64 pipe poll ppoll select nanosleep clock_nanosleep futex kill rt_sigprocmask rt_sigpending rt_sigtimedwait dup dup2 fstat stat readlink umask getcwd brk mmap mprotect uname getuid getpgid getsid fork wait4 openat unlink rename mkdir rmdir getdents64 epoll_wait eventfd2 sendto recvfrom flock ftruncate
#include "guest.h"
#include <linux/futex.h>

enum { MS = 300, ODD_MAX = 20, PER_FORK = 16 };

static int odd, round_, took;
static __thread const char *who = "first";

// A call's result is not what it must be: said, and counted.
static void strange(int line, const char *call, long got, int error, long wanted, int wanted_error) {
    if (__atomic_add_fetch(&odd, 1, __ATOMIC_RELAXED) > ODD_MAX) return;
    SAY("%s, line %d: %s: %ld %s, not %ld %s (round %d)", who, line, call, got, got < 0 ? strerrorname_np(error) : "", wanted,
        wanted_error ? strerrorname_np(wanted_error) : "", round_);
    fflush(stdout);
}

#define IS(wanted, wanted_error, call)                                                                 \
    do {                                                                                               \
        errno = 0;                                                                                     \
        long got_ = (long)(call), wanted_ = (long)(wanted);                                            \
        int error_ = errno;                                                                            \
        if (got_ != wanted_ || (got_ == -1 && error_ != (wanted_error)))                               \
            strange(__LINE__, #call, got_, error_, wanted_, wanted_error);                             \
    } while (0)

#define HOLDS(condition) IS(1, 0, !!(condition))

static pid_t parent, self, group, session;
static int kept, own, ends[2], counter, watch;
static char here[PATH_MAX];
static struct utsname machine;

static void take(int signal) { (void)signal, took++; }

static void names(void) {
    char b[PATH_MAX] = {0};
    struct utsname u;
    IS(-1, ENOENT, access("missing", F_OK));
    IS(0, 0, access("own", R_OK));
    IS(self, 0, RAW(getpid));
    IS(parent, 0, getppid());
    HOLDS(getcwd(b, sizeof b) && !strcmp(b, here));
    IS(strlen(here), 0, readlink("/proc/self/cwd", b, sizeof b));
    IS(-1, EINVAL, readlink("own", b, sizeof b));
    HOLDS(uname(&u) == 0 && !strcmp(u.nodename, machine.nodename));
    IS(022, 0, umask(022));
    IS(self, 0, RAW(gettid));
    HOLDS(getpgid(0) == group && getpgid(self) == group && getsid(0) == session);
    IS(-1, EBADF, close(999));
}

static void one_file(int fd, const char *name) {
    char b[32] = {0}, text[32];
    struct stat s, t;
    int flags = fcntl(fd, F_GETFL);
    IS(O_RDWR, 0, flags & (O_ACCMODE | O_APPEND));
    IS(0, 0, ftruncate(fd, 0));
    IS(0, 0, lseek(fd, 0, SEEK_SET));
    snprintf(text, sizeof text, "%010d", round_);
    IS(10, 0, write(fd, text, 10));
    IS(10, 0, lseek(fd, 0, SEEK_CUR));
    IS(0, 0, read(fd, b, 10));
    IS(10, 0, pread(fd, b, 20, 0));
    HOLDS(!memcmp(b, text, 10));
    IS(3, 0, pwrite(fd, "xyz", 3, 2));
    IS(2, 0, lseek(fd, 2, SEEK_SET));
    IS(3, 0, read(fd, b, 3));
    HOLDS(!memcmp(b, "xyz", 3));
    IS(6, 0, lseek(fd, 1, SEEK_CUR));
    IS(0, 0, fcntl(fd, F_SETFL, O_APPEND));
    IS(3, 0, write(fd, "end", 3));
    IS(13, 0, lseek(fd, 0, SEEK_CUR));
    IS(4, 0, lseek(fd, 4, SEEK_SET));
    IS(2, 0, write(fd, "!!", 2));
    IS(0, 0, read(fd, b, 1));
    IS(0, 0, fcntl(fd, F_SETFL, 0));
    IS(9, 0, lseek(fd, 9, SEEK_SET));
    IS(6, 0, read(fd, b, 20));
    HOLDS(!memcmp(b, text + 9, 1) && !memcmp(b + 1, "end!!", 5));
    IS(0, 0, fstat(fd, &s));
    IS(15, 0, s.st_size);
    IS(0, 0, stat(name, &t));
    HOLDS(S_ISREG(t.st_mode) && t.st_size == 15);
    IS(0, 0, flock(fd, LOCK_EX | LOCK_NB));
    IS(0, 0, flock(fd, LOCK_UN));
    int other = dup(fd);
    HOLDS(other > 2);
    IS(1, 0, lseek(other, 1, SEEK_SET));
    IS(1, 0, lseek(fd, 0, SEEK_CUR));
    IS(700, 0, dup2(other, 700));
    IS(0, 0, close(other));
    IS(1, 0, read(700, b, 1));
    IS(2, 0, lseek(fd, 0, SEEK_CUR));
    IS(0, 0, close(700));
}

static void directory(void) {
    struct stat s;
    IS(0, 0, mkdir("sub", 0755));
    IS(-1, EEXIST, mkdir("sub", 0755));
    int fd = open("sub/a", O_CREAT | O_EXCL | O_WRONLY, 0600);
    HOLDS(fd > 2);
    IS(5, 0, write(fd, "hello", 5));
    IS(0, 0, close(fd));
    IS(0, 0, rename("sub/a", "sub/b"));
    IS(-1, ENOENT, stat("sub/a", &s));
    HOLDS(stat("sub/b", &s) == 0 && s.st_size == 5);
    IS(-1, ENOTEMPTY, rmdir("sub"));
    DIR *all = opendir("sub");
    int count = 0;
    while (all && readdir(all)) count++;
    IS(3, 0, count);
    if (all) IS(0, 0, closedir(all));
    IS(0, 0, unlink("sub/b"));
    IS(0, 0, rmdir("sub"));
    IS(-1, ENOENT, open("sub/b", O_RDONLY));
}

static void pipes(void) {
    char b[16] = {0};
    struct pollfd p = {.fd = ends[0], .events = POLLIN};
    struct epoll_event e;
    uint64_t n = 5;
    IS(0, 0, poll(&p, 1, 0));
    IS(4, 0, write(ends[1], "pipe", 4));
    IS(1, 0, poll(&p, 1, 1000));
    IS(4, 0, read(ends[0], b, 16));
    HOLDS(!strcmp(b, "pipe"));
    IS(8, 0, write(counter, &n, 8));
    IS(1, 0, epoll_wait(watch, &e, 1, 1000));
    IS(8, 0, read(counter, &n, 8));
    IS(5, 0, n);
    IS(0, 0, epoll_wait(watch, &e, 1, 1));
    IS(-1, EAGAIN, read(counter, &n, 8));
}

static void waits(void) {
    int64_t before = now_us(CLOCK_MONOTONIC), after;
    struct timespec rest = {0, 300000}, left = {7, 7}, until;
    struct timeval brief = {0, 200};
    int word = 1;
    IS(0, 0, nanosleep(&rest, &left));
    after = now_us(CLOCK_MONOTONIC);
    HOLDS(after >= before + 300);
    IS(0, 0, poll(0, 0, 1));
    IS(0, 0, ppoll(0, 0, &rest, 0));
    IS(0, 0, select(0, 0, 0, 0, &brief));
    IS(0, 0, clock_gettime(CLOCK_MONOTONIC, &until));
    until.tv_nsec += 200000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    IS(0, 0, clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0));
    HOLDS(now_us(CLOCK_MONOTONIC) >= until.tv_sec * 1000000LL + until.tv_nsec / 1000);
    IS(-1, EAGAIN, RAW(futex, &word, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0));
    IS(-1, ETIMEDOUT, RAW(futex, &word, FUTEX_WAIT_PRIVATE, 1, &rest, 0, 0));
    IS(0, 0, RAW(futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0));
}

static void signals(void) {
    sigset_t set, old;
    siginfo_t info;
    struct timespec brief = {0, 200000};
    int before = took;
    IS(0, 0, raise(SIGUSR1));
    IS(before + 1, 0, took);
    IS(0, 0, kill(self, SIGUSR1));
    IS(before + 2, 0, took);
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    IS(0, 0, pthread_sigmask(SIG_BLOCK, &set, &old));
    IS(-1, EAGAIN, sigtimedwait(&set, &info, &brief));
    IS(0, 0, raise(SIGUSR2));
    IS(0, 0, sigpending(&old));
    IS(1, 0, sigismember(&old, SIGUSR2));
    IS(SIGUSR2, 0, sigtimedwait(&set, &info, &brief));
    IS(self, 0, info.si_pid);
    IS(0, 0, pthread_sigmask(SIG_UNBLOCK, &set, 0));
    IS(-1, ESRCH, kill(0x3ffffff, 0));
}

static void memory(void) {
    void *top = sbrk(0);
    HOLDS(sbrk(4096) == top && sbrk(-4096) == (char *)top + 4096 && sbrk(0) == top);
    char *m = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(m != MAP_FAILED);
    m[4096] = 7;
    IS(0, 0, mprotect(m, 65536, PROT_READ));
    HOLDS(m[4096] == 7 && m[8192] == 0);
    IS(0, 0, munmap(m, 65536));
    IS(5, 0, pwrite(own, "bytes", 5, 0));
    char *f = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, own, 0);
    HOLDS(f != MAP_FAILED && !memcmp(f, "bytes", 5));
    IS(0, 0, munmap(f, 4096));
}

static void children(void) {
    int status = 0;
    IS(-1, ECHILD, waitpid(self, &status, WNOHANG));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(getppid() == self ? 7 : 8);
    IS(child, 0, waitpid(child, &status, 0));
    IS(7 << 8, 0, status);
}

// The calls that many threads may make at once.
static void *beside(void *stop) {
    who = "second";
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        struct timespec rest = {0, 200000};
        struct stat s;
        IS(-1, ENOENT, access("missing too", F_OK));
        IS(parent, 0, getppid());
        IS(0, 0, nanosleep(&rest, 0));
        IS(0, 0, stat("own", &s));
        IS(0, 0, poll(0, 0, 1));
    }
    return 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const char *ms = getenv("STEADY_MS");
    self = getpid(), parent = getppid(), group = getpgid(0), session = getsid(0);
    umask(022);
    CHECK(getcwd(here, sizeof here) && uname(&machine) == 0);
    CHECK((kept = open("kept", O_CREAT | O_RDWR, 0600)) > 2);
    pid_t holder = fork();
    CHECK(holder >= 0);
    while (holder == 0) pause();
    CHECK((own = open("own", O_CREAT | O_RDWR, 0600)) > 2 && pipe(ends) == 0);
    CHECK((counter = eventfd(0, EFD_NONBLOCK)) > 2 && (watch = epoll_create1(0)) > 2);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(watch, EPOLL_CTL_ADD, counter, &event) == 0);
    struct sigaction action = {.sa_handler = take};
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    int stop = 0;
    pthread_t second;
    CHECK(pthread_create(&second, 0, beside, &stop) == 0);
    int64_t end = now_us(CLOCK_MONOTONIC) + 1000LL * (ms ? atoi(ms) : MS);
    while (now_us(CLOCK_MONOTONIC) < end) {
        names();
        one_file(own, "own");
        one_file(kept, "kept");
        directory();
        pipes();
        waits();
        signals();
        memory();
        if (round_++ % PER_FORK == 0) children();
    }
    GUEST_POINT();
    one_file(kept, "kept");
    one_file(own, "own");
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(second, 0) == 0);
    CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, 0, 0) == holder);
    if (ms) fprintf(stderr, "%d rounds\n", round_);
    SAY("%d calls said what they must not", odd);
    CHECK(odd == 0);
    SUCCESS();
}
