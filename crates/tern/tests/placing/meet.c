// meet NAME [FILE]: counts to 200 under a semaphore with another process that does the same, in shared memory or a file; both end when
// both have, with the sum.
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct meeting {
    volatile int there, count, done;
};

static int failed(const char *what) {
    perror(what);
    return 2;
}

int main(int argc, char **argv) {
    char name[64];
    snprintf(name, sizeof name, "/%s", argc > 1 ? argv[1] : "meeting");
    sem_t *lock = sem_open(name, O_CREAT, 0600, 1);
    if (lock == SEM_FAILED)
        return failed("sem_open");
    snprintf(name, sizeof name, "/%s.memory", argc > 1 ? argv[1] : "meeting");
    int fd = argc > 2 ? open(argv[2], O_RDWR | O_CREAT, 0600) : shm_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096))
        return failed("shm_open");
    struct meeting *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED || close(fd))
        return failed("mmap");
    if (sem_wait(lock))
        return failed("sem_wait");
    at->there++;
    puts("there"), fflush(stdout);
    sem_post(lock);
    for (int i = 0; i < 200; i++) {
        // Away, with the semaphore taken and stores that nobody at home has seen.
        for (int waits = 0; i == 20 && at->there < 2; waits++) {
            if (waits > 30000)
                return puts("nobody came"), 3;
            usleep(1000);
        }
        if (sem_wait(lock))
            return failed("sem_wait");
        int count = at->count;
        usleep(200);
        at->count = count + 1;
        sem_post(lock);
    }
    __sync_add_and_fetch(&at->done, 1);
    for (int waits = 0; at->done < 2; waits++) {
        if (waits > 30000)
            return puts("alone"), 4;
        usleep(1000);
    }
    printf("%d\n", at->count);
    return 0;
}
