// Shared memory, semaphores and queues that a family makes for itself.
// calls: shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
#include "guest.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    key_t key = 0x74650000 | (getpid() & 0xffff);
    FAILS(ENOENT, shmget(key, 4096, 0600));
    int memory = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600), private = shmget(IPC_PRIVATE, 100, 0600);
    CHECK(memory >= 0 && private >= 0 && shmget(key, 4096, 0600) == memory);
    FAILS(EEXIST, shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600));
    int *shared = shmat(memory, NULL, 0);
    CHECK(shared != (void *)-1 && *shared == 0);
    int locks = semget(key, 2, IPC_CREAT | 0600), queue = msgget(key, IPC_CREAT | 0600);
    CHECK(locks >= 0 && queue >= 0);
    CHECK(semctl(locks, 0, SETVAL, 1) == 0 && semctl(locks, 0, GETVAL) == 1);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            struct sembuf down = {0, -1, SEM_UNDO}, up = {0, 1, SEM_UNDO};
            for (int k = 0; k < 100; k++) {
                CHECK(semop(locks, &down, 1) == 0);
                int seen = *shared;
                sched_yield();
                *shared = seen + 1;
                CHECK(semop(locks, &up, 1) == 0);
            }
            struct {
                long type;
                char text[8];
            } m = {1 + i, "done"};
            CHECK(msgsnd(queue, &m, 5, 0) == 0);
            _exit(0);
        }
    GUEST_POINT();
    for (int i = 4; i > 0; i--) {
        struct {
            long type;
            char text[8];
        } m;
        CHECK(msgrcv(queue, &m, 8, i, 0) == 5 && m.type == i);
    }
    while (wait(NULL) > 0)
        ;
    SAY("counted to %d", *shared);
    struct sembuf down = {1, -1, 0};
    struct timespec soon = {0, 1000000};
    FAILS(EAGAIN, semtimedop(locks, &down, 1, &soon));
    CHECK(shmdt(shared) == 0 && shmctl(memory, IPC_RMID, NULL) == 0 && shmctl(private, IPC_RMID, NULL) == 0);
    CHECK(semctl(locks, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, NULL) == 0);
    FAILS(EINVAL, msgctl(queue, IPC_RMID, NULL));
    SUCCESS();
}
