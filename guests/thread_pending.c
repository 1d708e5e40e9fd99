// Signals that wait, blocked, for one thread or for its process wait for the same one wherever that runs, SIGTRAP too, and carry the same.
// calls: tgkill rt_tgsigqueueinfo rt_sigqueueinfo rt_sigtimedwait
#include "guest.h"

static pid_t tids[3];
static int told[3][2];
static pthread_barrier_t sent;

static void queue(pid_t tid, int signal, int value) {
    siginfo_t info = {0};
    info.si_signo = signal, info.si_code = SI_QUEUE, info.si_pid = getpid(), info.si_uid = getuid();
    info.si_value.sival_int = value;
    long done = tid ? RAW(rt_tgsigqueueinfo, getpid(), tid, signal, &info) : RAW(rt_sigqueueinfo, getpid(), signal, &info);
    CHECK(done == 0);
}

/// All that waits, in order.
static void take(const char *who) {
    sigset_t all;
    sigfillset(&all);
    struct timespec at_once = {0, 0};
    siginfo_t info;
    for (int signal; (signal = sigtimedwait(&all, &info, &at_once)) > 0;)
        SAY("%s: %s, code %d, value %d", who, signal >= SIGRTMIN ? "real-time" : strsignal(signal), info.si_code,
            signal >= SIGRTMIN ? info.si_value.sival_int : 0);
    CHECK(errno == EAGAIN);
}

static void *thread(void *at) {
    long n = (long)at;
    char c;
    tids[n] = gettid();
    pthread_barrier_wait(&sent);
    // They come one after the other.
    CHECK(read(told[n][0], &c, 1) == 1);
    take(n == 1 ? "first" : "second");
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0 && pipe(told[1]) == 0 && pipe(told[2]) == 0);
    CHECK(pthread_barrier_init(&sent, NULL, 3) == 0);
    pthread_t threads[3];
    tids[0] = gettid();
    for (long n = 1; n < 3; n++) CHECK(pthread_create(&threads[n], NULL, thread, (void *)n) == 0);
    pthread_barrier_wait(&sent);
    CHECK(RAW(tgkill, getpid(), tids[1], SIGUSR1) == 0 && RAW(tgkill, getpid(), tids[1], SIGTRAP) == 0);
    for (int value = 1; value <= 3; value++) queue(tids[2], SIGRTMIN + 1, value);
    CHECK(RAW(tgkill, getpid(), tids[0], SIGUSR2) == 0);
    queue(0, SIGRTMIN + 2, 7);
    CHECK(kill(getpid(), SIGTRAP) == 0);
    GUEST_POINT();
    take("main");
    for (int n = 1; n < 3; n++) CHECK(write(told[n][1], "g", 1) == 1 && pthread_join(threads[n], NULL) == 0);
    // What was blocked for long is handled as ever.
    struct sigaction action = {.sa_handler = SIG_IGN};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0 && kill(getpid(), SIGTRAP) == 0);
    sigset_t pending;
    CHECK(sigpending(&pending) == 0);
    SAY("waits though it is ignored: %d", sigismember(&pending, SIGTRAP));
    SUCCESS();
}
