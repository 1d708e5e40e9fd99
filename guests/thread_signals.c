// Signals to one thread, and to the process.
// calls: tgkill rt_sigprocmask
#include "guest.h"

static volatile int ready, stop, handled_by, target;

static void on(int signal) {
    (void)signal;
    handled_by = gettid();
    stop = 1;
}

static void *wait_for_it(void *arg) {
    target = gettid();
    ready = 1;
    while (!stop) sched_yield();
    return arg;
}

static void *open_for_it(void *arg) {
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return wait_for_it(arg);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction a = {.sa_handler = on};
    CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, wait_for_it, NULL) == 0);
    while (!__atomic_load_n(&ready, __ATOMIC_SEQ_CST)) sched_yield();
    GUEST_POINT();
    CHECK(pthread_kill(t, SIGUSR1) == 0 && pthread_join(t, NULL) == 0);
    SAY("handled by the thread: %s", handled_by == target ? "yes" : "no");
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    ready = 0, stop = 0;
    a.sa_handler = on;
    CHECK(sigaction(SIGUSR2, &a, NULL) == 0 && pthread_create(&t, NULL, open_for_it, NULL) == 0);
    while (!__atomic_load_n(&ready, __ATOMIC_SEQ_CST)) sched_yield();
    CHECK(kill(getpid(), SIGUSR2) == 0 && pthread_join(t, NULL) == 0);
    SAY("to the process, handled by the one that lets it in: %s", handled_by == target ? "yes" : "no");
    SUCCESS();
}
