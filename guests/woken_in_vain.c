// A signal to the process wakes one thread and is taken by another: who was woken in vain goes on to wait, and what it waits for happens once.
// calls: wait4 waitid read accept
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#define WAITERS 4
#define ROUNDS 60

static atomic_bool done;
static int listener;
static struct sockaddr_in at = {.sin_family = AF_INET};

static void handler(int signal) { (void)signal; }

static void *waits(void *way) {
    for (int i = 0; i < ROUNDS; i++) {
        int pid = fork(), status = -1;
        if (pid == 0) _exit(i);
        CHECK(pid > 0);
        if (way == NULL) {
            CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == i);
        } else {
            siginfo_t info = {0};
            CHECK(waitid(P_PID, pid, &info, WEXITED) == 0 && info.si_pid == pid && info.si_status == i);
        }
    }
    return NULL;
}

// Numbered bytes come over a connection and over a FIFO, each of which is read once.
static void *reads(void *fifo) {
    int fd = fifo ? open(fifo, O_RDONLY) : socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && (fifo || connect(fd, (struct sockaddr *)&at, sizeof at) == 0));
    unsigned char byte, expected = 0;
    ssize_t got;
    while ((got = read(fd, &byte, 1)) == 1) CHECK(byte == expected++);
    CHECK(got == 0 || fifo);
    CHECK(got == 0 || !fifo);
    CHECK(close(fd) == 0);
    return NULL;
}

static void *writes(void *fifo) {
    int fd = fifo ? open(fifo, O_WRONLY) : accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    for (unsigned char byte = 0; !atomic_load(&done); byte++) CHECK(write(fd, &byte, 1) == 1), usleep(1000);
    CHECK(close(fd) == 0);
    return NULL;
}

static void *signals(void *unused) {
    while (!atomic_load(&done)) CHECK(kill(getpid(), SIGUSR1) == 0), usleep(300);
    return unused;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    socklen_t length = sizeof at;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    pthread_t waiters[WAITERS], others[5];
    CHECK(mkfifo("fifo", 0600) == 0 && pthread_create(&others[4], NULL, signals, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        void *fifo = i ? "fifo" : NULL;
        CHECK(pthread_create(&others[2 * i], NULL, writes, fifo) == 0);
        CHECK(pthread_create(&others[2 * i + 1], NULL, reads, fifo) == 0);
    }
    for (long i = 0; i < WAITERS; i++) CHECK(pthread_create(&waiters[i], NULL, waits, (void *)(i % 2)) == 0);
    for (int i = 0; i < WAITERS; i++) CHECK(pthread_join(waiters[i], NULL) == 0);
    atomic_store(&done, true);
    for (int i = 0; i < 5; i++) CHECK(pthread_join(others[i], NULL) == 0);
    GUEST_POINT();
    SUCCESS();
}
