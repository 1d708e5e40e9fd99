// System V semaphores and queues are the same objects wherever their process runs: values, messages, keys, and what is to be undone.
// calls: semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
#include "guest.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

enum { COUNT = 3 };
static volatile sig_atomic_t rings;
static void ring(int signal) { (void)signal, rings++; }

static int change(int set, unsigned short which, short by) {
    struct sembuf change = {which, by, SEM_UNDO};
    return semop(set, &change, 1);
}

/// A waiting operation is ended by a handler, whatever its flags.
static void interrupted(int set, int queue) {
    struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
    struct itimerval soon = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    struct {
        long type;
        char text[8];
    } m;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    struct sembuf down = {2, -1, 0};
    FAILS(EINTR, semop(set, &down, 1));
    FAILS(EINTR, msgrcv(queue, &m, sizeof m.text, 9, 0));
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && rings > 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    key_t key = 0x74660000 | (getpid() & 0xffff);
    int set = semget(IPC_PRIVATE, COUNT, IPC_CREAT | 0600), queue = msgget(key, IPC_CREAT | 0600);
    unsigned short values[COUNT + 1] = {4, 5, 0, 77};
    struct {
        long type;
        char text[8];
    } m = {7, "before"};
    CHECK(set >= 0 && queue >= 0 && semctl(set, 0, SETALL, values) == 0);
    CHECK(change(set, 0, 2) == 0 && msgsnd(queue, &m, 7, 0) == 0);
    // A child does something that its end undoes, and waits for its parent.
    pid_t child = fork();
    if (child == 0) {
        CHECK(change(set, 1, -3) == 0);
        struct sembuf down = {2, -1, 0};
        CHECK(semop(set, &down, 1) == 0);
        _exit(0);
    }
    while (semctl(set, 2, GETNCNT) != 1) usleep(1000);
    GUEST_POINT();
    memset(values, 0, sizeof values), values[COUNT] = 77;
    CHECK(semctl(set, 0, GETALL, values) == 0);
    SAY("%d %d %d %d", values[0], values[1], values[2], values[COUNT]);
    CHECK(semctl(set, 2, GETNCNT) == 1 && semctl(set, 0, GETPID) == getpid());
    struct sembuf up = {2, 1, 0};
    int status;
    CHECK(semop(set, &up, 1) == 0 && waitpid(child, &status, 0) == child && status == 0);
    SAY("undone: %d", semctl(set, 1, GETVAL));
    memset(&m, 0, sizeof m);
    CHECK(msgget(key, 0600) == queue && msgrcv(queue, &m, sizeof m.text, 0, 0) == 7);
    SAY("%ld %s", m.type, m.text);
    struct semid_ds about;
    CHECK(semctl(set, 0, IPC_STAT, &about) == 0 && about.sem_nsems == COUNT && about.sem_perm.uid == getuid());
    struct msqid_ds waiting;
    CHECK(msgctl(queue, IPC_STAT, &waiting) == 0 && waiting.msg_qnum == 0);
    struct timespec soon = {0, 2000000};
    struct sembuf down = {2, -1, 0};
    FAILS(EAGAIN, semtimedop(set, &down, 1, &soon));
    FAILS(ENOMSG, msgrcv(queue, &m, sizeof m.text, 0, IPC_NOWAIT));
    FAILS(EFAULT, msgsnd(queue, (void *)8, 3, 0));
    FAILS(EINVAL, semctl(set, COUNT, GETVAL));
    interrupted(set, queue);
    CHECK(semctl(set, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, NULL) == 0);
    FAILS(EINVAL, semctl(set, 0, GETVAL));
    SUCCESS();
}
