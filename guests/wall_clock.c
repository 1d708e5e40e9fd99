// Waits until a time of the wall clock, by every call that takes one, and that clock itself: it agrees however it is asked, and does not go back.
// calls: clock_nanosleep timerfd_create timerfd_settime timer_create timer_settime futex gettimeofday time
#include "guest.h"
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#define WAIT_MS 150

static struct timespec soon(void) {
    int64_t us = now_us(CLOCK_REALTIME) + WAIT_MS * 1000;
    return (struct timespec){us / 1000000, us % 1000000 * 1000};
}

// A clock that is off by seconds ends a wait at once, or much later.
static void waited(const char *what, int64_t since_us) {
    int64_t us = now_us(CLOCK_MONOTONIC) - since_us;
    SAY("%s: %s", what, us < (WAIT_MS - 5) * 1000 ? "too early" : us > (WAIT_MS + 1500) * 1000 ? "too late" : "in time");
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    GUEST_POINT();
    struct timeval tv;
    struct timespec raw, coarse;
    int64_t before = now_us(CLOCK_REALTIME);
    CHECK(gettimeofday(&tv, NULL) == 0 && RAW(clock_gettime, CLOCK_REALTIME, &raw) == 0 && clock_gettime(CLOCK_REALTIME_COARSE, &coarse) == 0);
    time_t seconds = time(NULL);
    int64_t after = now_us(CLOCK_REALTIME);
    // The coarse clock, and time(2) with it, is a tick behind.
    int64_t tick_us = 20000, day = tv.tv_sec * 1000000LL + tv.tv_usec, made = raw.tv_sec * 1000000LL + raw.tv_nsec / 1000;
    CHECK(before <= day && day <= made && made <= after && seconds * 1000000LL <= after && seconds * 1000000LL > before - 1000000 - tick_us);
    CHECK(coarse.tv_sec * 1000000LL + coarse.tv_nsec / 1000 >= before - tick_us && coarse.tv_sec * 1000000LL + coarse.tv_nsec / 1000 <= after);
    int64_t last = now_us(CLOCK_REALTIME);
    for (int i = 0; i < 1000; i++) {
        int64_t now = now_us(CLOCK_REALTIME);
        CHECK(now >= last);
        last = now;
    }
    // What is written gets a time between two readings, but for a tick of the file system's clock.
    int fd = open("dated", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    struct stat st;
    before = now_us(CLOCK_REALTIME);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && fstat(fd, &st) == 0);
    after = now_us(CLOCK_REALTIME);
    int64_t dated = st.st_mtim.tv_sec * 1000000LL + st.st_mtim.tv_nsec / 1000;
    CHECK(dated >= before - tick_us && dated <= after + 1000);

    int64_t since = now_us(CLOCK_MONOTONIC);
    struct timespec until = soon();
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == 0);
    waited("clock_nanosleep", since);

    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&mutex);
    since = now_us(CLOCK_MONOTONIC), until = soon();
    CHECK(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
    waited("pthread_cond_timedwait", since);

    sem_t semaphore;
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    since = now_us(CLOCK_MONOTONIC), until = soon();
    FAILS(ETIMEDOUT, sem_timedwait(&semaphore, &until));
    waited("sem_timedwait", since);

    uint32_t word = 1;
    until = soon(), since = now_us(CLOCK_MONOTONIC);
    FAILS(EINVAL, RAW(futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 1, &until, NULL, 0));
    FAILS(ETIMEDOUT, RAW(futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 1, &until, NULL, 1));
    waited("futex", since);

    int timer = timerfd_create(CLOCK_REALTIME, 0);
    struct itimerspec value = {{0, 0}, soon()};
    uint64_t ends;
    since = now_us(CLOCK_MONOTONIC);
    CHECK(timer >= 0 && timerfd_settime(timer, TFD_TIMER_ABSTIME, &value, NULL) == 0 && read(timer, &ends, 8) == 8 && ends == 1);
    waited("timerfd", since);

    sigset_t set;
    int signal;
    timer_t posix;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(timer_create(CLOCK_REALTIME, &event, &posix) == 0);
    value = (struct itimerspec){{0, 0}, soon()}, since = now_us(CLOCK_MONOTONIC);
    CHECK(timer_settime(posix, TIMER_ABSTIME, &value, NULL) == 0 && sigwait(&set, &signal) == 0 && signal == SIGUSR1);
    waited("timer", since);
    // A time long past is over at once.
    until = (struct timespec){1, 0};
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == 0);
    SUCCESS();
}
