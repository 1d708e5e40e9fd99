/* Programs that are dumped: each says "ready", waits for a line on standard input, looks whether all is as
 * it was, and says "right" or what is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
#define PAGE 4096

static void must(int holds, const char *what)
{
    if (!holds) {
        printf("wrong: %s (%s)\n", what, strerror(errno));
        fflush(stdout);
        _exit(3);
    }
}

/* Says that the program is ready, and waits for the word to go on. */
static void dumped(void)
{
    char line[64];
    printf("ready %d\n", getpid());
    fflush(stdout);
    must(fgets(line, sizeof line, stdin) != NULL, "the word to go on");
}

static pthread_mutex_t recursive[WORKERS], checked = PTHREAD_MUTEX_INITIALIZER, robust, gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER, ready = PTHREAD_COND_INITIALIZER;
static int is_open, count_ready;
static pid_t numbers[WORKERS];
static __thread volatile sig_atomic_t hit;
static __thread double own;

static void on_signal(int signal)
{
    (void)signal;
    hit = 1;
}

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument;
    numbers[me] = gettid();
    own = me + 0.25;
    must(!pthread_mutex_lock(&recursive[me]) && !pthread_mutex_lock(&recursive[me]), "locking twice");
    if (me == 1)
        must(!pthread_mutex_lock(&robust), "locking a robust mutex");
    pthread_mutex_lock(&gate);
    count_ready++;
    pthread_cond_signal(&ready);
    while (!is_open)
        pthread_cond_wait(&opened, &gate);
    pthread_mutex_unlock(&gate);
    must(gettid() == numbers[me], "a thread's number");
    must(own == me + 0.25, "a thread's own variable");
    must(!pthread_mutex_lock(&recursive[me]), "locking a third time");
    for (int n = 0; n < 3; n++)
        must(!pthread_mutex_unlock(&recursive[me]), "unlocking a recursive mutex");
    must(pthread_mutex_unlock(&recursive[me]) == EPERM, "unlocking what is not locked");
    must(pthread_mutex_unlock(&checked) == EPERM, "unlocking another's mutex");
    while (!hit)
        usleep(1000);
    return (void *)(intptr_t)(me + 10);
}

static void threads(void)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    for (int n = 0; n < WORKERS; n++)
        pthread_mutex_init(&recursive[n], &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &kind);
    signal(SIGUSR1, on_signal);
    must(!pthread_mutex_lock(&checked), "locking");
    pthread_t all[WORKERS];
    for (int n = 0; n < WORKERS; n++)
        must(!pthread_create(&all[n], NULL, work, (void *)(intptr_t)n), "making a thread");
    pthread_mutex_lock(&gate);
    while (count_ready < WORKERS)
        pthread_cond_wait(&ready, &gate);
    pthread_mutex_unlock(&gate);
    pid_t pid = getpid();
    dumped();
    must(getpid() == pid && gettid() == pid, "the PID");
    must(pthread_mutex_lock(&checked) == EDEADLK, "locking one's own mutex again");
    pthread_mutex_lock(&gate);
    is_open = 1;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&gate);
    for (int n = 0; n < WORKERS; n++)
        must(!pthread_kill(all[n], SIGUSR1), "signalling a thread");
    must(pthread_mutex_lock(&robust) == EOWNERDEAD, "a robust mutex whose owner ended");
    for (int n = 0; n < WORKERS; n++) {
        void *result;
        must(!pthread_join(all[n], &result) && (intptr_t)result == n + 10, "joining a thread");
    }
    must(!pthread_mutex_unlock(&checked), "unlocking");
    must(!raise(SIGUSR1) && hit, "signalling oneself");
}

/* Memory of so many MiB, most of it zeros; one page in a hundred is filled. */
static void memory(size_t mib)
{
    size_t pages = mib * 256;
    uint64_t *all = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(all != MAP_FAILED, "memory");
    for (size_t n = 0; n < pages; n++)
        all[n * (PAGE / 8)] = n % 100 ? 0 : n + 1;
    dumped();
    for (size_t n = 0; n < pages; n++)
        must(all[n * (PAGE / 8)] == (n % 100 ? 0 : n + 1), "a page");
}

static void files(void)
{
    int log = open("log", O_RDWR | O_CREAT | O_APPEND, 0644), place = open("place", O_RDWR | O_CREAT, 0644), ends[2];
    must(log >= 0 && place >= 0 && write(log, "before\n", 7) == 7, "files");
    must(write(place, "0123456789", 10) == 10 && lseek(place, 4, SEEK_SET) == 4, "a place");
    int copy = dup(place), counter = eventfd(5, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0), all = epoll_create1(0);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    must(!pipe(ends) && write(ends[1], "inside", 6) == 6, "a pipe");
    struct itimerspec soon = {.it_value = {.tv_sec = 1}};
    must(!timerfd_settime(timer, 0, &soon, NULL), "a timer");
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77};
    must(!epoll_ctl(all, EPOLL_CTL_ADD, timer, &event), "watching");
    void *shown = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, place, 0);
    must(shown != MAP_FAILED, "mapping a file shared");
    struct rlimit limit = {.rlim_cur = 200, .rlim_max = 300}, now;
    must(!setrlimit(RLIMIT_NOFILE, &limit), "a limit");
    umask(027);
    dumped();
    char text[16] = "";
    must(read(place, text, 2) == 2 && !memcmp(text, "45", 2), "the position of a file");
    must(lseek(copy, 0, SEEK_CUR) == 6, "the position that a duplicate shares");
    must(!memcmp(shown, "0123", 4), "a file that is mapped shared");
    must(write(log, "after\n", 6) == 6, "appending");
    must(read(ends[0], text, 6) == 6 && !memcmp(text, "inside", 6), "the content of a pipe");
    must(write(ends[1], "x", 1) == 1 && read(ends[0], text, 1) == 1, "a pipe");
    uint64_t count;
    must(read(counter, &count, 8) == 8 && count == 5, "a counter");
    must(epoll_wait(all, &event, 1, 20000) == 1 && event.data.u64 == 77, "a timer that is watched");
    must(fcntl(null, F_GETFD) == FD_CLOEXEC && write(null, "x", 1) == 1, "/dev/null");
    must(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == 200 && now.rlim_max == 300, "a limit");
    must(umask(0) == 027, "the umask");
    for (int fd = 3; fd < 200; fd++)
        must(fcntl(fd, F_GETFD) < 0 || fd <= null || fd == ends[0] || fd == ends[1], "a descriptor of another's");
}

static volatile sig_atomic_t value, alarmed;

static void on_value(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    value = info->si_value.sival_int;
}

static void on_alarm(int signal)
{
    (void)signal;
    alarmed = 1;
}

static void signals(void)
{
    struct sigaction action = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    struct sigaction ring = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigaction(SIGVTALRM, &ring, NULL);
    static char stack[64 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    sigset_t blocked, now;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    must(!sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 42}), "queueing a signal");
    struct itimerval soon = {.it_value = {.tv_usec = 200000}};
    setitimer(ITIMER_VIRTUAL, &soon, NULL);
    signal(SIGHUP, SIG_IGN);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    dumped();
    clock_gettime(CLOCK_MONOTONIC, &after);
    must(after.tv_sec >= before.tv_sec && after.tv_sec < before.tv_sec + 3600, "the clock");
    must(value == 0, "a signal that is blocked");
    sigprocmask(SIG_SETMASK, NULL, &now);
    must(sigismember(&now, SIGRTMIN) == 1, "the mask");
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    must(value == 42, "a signal that waited");
    must(signal(SIGHUP, SIG_DFL) == SIG_IGN, "an ignored signal");
    while (!alarmed)
        ;
    stack_t found;
    must(!sigaltstack(NULL, &found) && found.ss_sp == stack, "the signal stack");
}

static void child(void)
{
    dumped();
    pid_t one = fork();
    if (!one)
        _exit(9);
    int status;
    must(waitpid(one, &status, 0) == one && WEXITSTATUS(status) == 9, "a child");
    char *const words[] = {"sh", "-c", "echo right; exit 4", NULL};
    execv("/bin/sh", words);
}

static void killed(void)
{
    dumped();
    raise(SIGTERM);
}

static void counts(void)
{
    for (int n = 0;; n++) {
        printf("%d\n", n);
        fflush(stdout);
        usleep(10000);
    }
}

static void holds(const char *what)
{
    if (!strcmp(what, "socket"))
        must(socket(AF_INET, SOCK_STREAM, 0) >= 0, what);
    else if (!strcmp(what, "lock"))
        must(!flock(open("locked", O_RDWR | O_CREAT, 0644), LOCK_EX), what);
    else if (!strcmp(what, "removed"))
        must(open("gone", O_RDWR | O_CREAT, 0644) >= 0 && !unlink("gone"), what);
    else if (!strcmp(what, "file"))
        must(open("kept", O_RDWR | O_CREAT, 0644) >= 0, what);
    dumped();
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "memory"))
        memory(strtoul(words[2], NULL, 10));
    else if (!strcmp(what, "files"))
        files();
    else if (!strcmp(what, "signals"))
        signals();
    else if (!strcmp(what, "child"))
        child();
    else if (!strcmp(what, "killed"))
        killed();
    else if (!strcmp(what, "counts"))
        counts();
    else
        holds(what);
    puts("right");
    return 0;
}
