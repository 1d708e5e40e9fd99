// Takes all that there is of something, up to what a test can wait for: `exhaust KIND`. What it has goes when it ends.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int descriptor(void) { return open("/dev/null", O_RDONLY); }
static int file(void) { return open("/etc/passwd", O_RDONLY); }
static int stream(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }
static int semaphore(void) { return semget(IPC_PRIVATE, 1, 0600); }

static int pipes(void) {
    int ends[2];
    return pipe(ends);
}

// No two that touch are alike, or they would be one.
static int mapping(void) {
    static int n;
    return mmap(NULL, 4096, n++ % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

// They end with their parent.
static int process(void) {
    pid_t parent = getpid(), child = fork();
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)) _exit(0);
    while (child == 0) pause();
    return child;
}

static void *waits(void *unused) {
    for (;;) pause();
    return unused;
}

static int thread(void) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, waits, NULL);
    return errno ? -1 : 0;
}

// It should go home for this call, and cannot: that memory has no other place.
static int stay(void) {
    static int secret = -1;
    if (secret < 0) secret = syscall(SYS_memfd_secret, 0);
    syscall(SYS_acct, "/nowhere");
    return secret;
}

// Those of a process go with it. An ordinary user may have 200 (/proc/sys/kernel/keys/maxkeys), the superuser more than a test can wait for.
static int key(void) {
    static int n;
    char name[16];
    if (getuid() == 0 && (setgid(65534) || setuid(65534))) return -1;
    snprintf(name, sizeof name, "tern-%d", n++);
    return syscall(SYS_add_key, "user", name, "x", 1, -2 /* KEY_SPEC_PROCESS_KEYRING */);
}

static const struct {
    const char *name;
    int (*take)(void);
    int most;
} kinds[] = {
    {"descriptors", descriptor, 30000}, {"files", file, 3000},      {"sockets", stream, 500},
    {"pipes", pipes, 30000},            {"semaphores", semaphore, 500}, {"mappings", mapping, 70000},
    {"processes", process, 300},        {"threads", thread, 300},   {"stays", stay, 150},
    {"keys", key, 5000},
};

int main(int argc, char **argv) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (argc != 2 || strcmp(argv[1], kinds[k].name)) continue;
        int taken = 0;
        while (taken < kinds[k].most && kinds[k].take() >= 0) taken++;
        fprintf(stderr, "%s: %d, then %s\n", argv[1], taken, taken < kinds[k].most ? strerror(errno) : "enough");
        puts(taken > 100 ? "taken" : "hardly any");
        fflush(stdout);
        return 0;
    }
    return 2;
}
