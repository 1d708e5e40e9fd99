// Semaphores and shared memory by name (sem_open, shm_open): of a family, by inheritance and by name, with their names and without.
// calls: mmap openat linkat unlinkat futex msync
#include "socket.h"
#include <semaphore.h>
#include <sys/mman.h>

struct shared {
    int count;
    char text[60];
};

static char sem_name[32], memory_name[32];

static struct shared *map(int flags) {
    int fd = shm_open(memory_name, flags, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 3 * 4096) == 0);
    struct shared *found = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(found != MAP_FAILED && close(fd) == 0);
    return found;
}

static void count(sem_t *lock, struct shared *at) {
    for (int i = 0; i < 100; i++) {
        CHECK(sem_wait(lock) == 0);
        at->count++;
        CHECK(sem_post(lock) == 0);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    snprintf(sem_name, sizeof sem_name, "/s%d", getpid()), snprintf(memory_name, sizeof memory_name, "/m%d", getpid());
    sem_t *lock = sem_open(sem_name, O_CREAT | O_EXCL, 0600, 1);
    CHECK(lock != SEM_FAILED);
    struct shared *at = map(O_RDWR | O_CREAT | O_EXCL);
    at->count = 7;
    // By name: another mapping of the same.
    struct shared *again = map(O_RDWR);
    CHECK(again != at && again->count == 7);
    pid_t heir = fork();
    if (heir == 0) {
        count(lock, at);
        _exit(0);
    }
    pid_t by_name = fork();
    if (by_name == 0) {
        CHECK(sem_close(lock) == 0 && munmap(at, 3 * 4096) == 0 && munmap(again, 3 * 4096) == 0);
        lock = sem_open(sem_name, 0);
        CHECK(lock != SEM_FAILED);
        count(lock, map(O_RDWR));
        _exit(0);
    }
    count(lock, again);
    GUEST_POINT();
    say_end(heir), say_end(by_name);
    SAY("%d", at->count);
    // The file says the same as the mapping.
    char path[64];
    snprintf(path, sizeof path, "/dev/shm%s", memory_name);
    int fd = open(path, O_RDWR);
    struct shared read_back = {0}, written = {1000, "written"};
    CHECK(fd >= 0 && read(fd, &read_back, sizeof read_back) == sizeof read_back && read_back.count == at->count);
    CHECK(pwrite(fd, &written, sizeof written, 0) == sizeof written);
    SAY("%d %s", at->count, again->text);
    CHECK(sem_unlink(sem_name) == 0 && shm_unlink(memory_name) == 0);
    FAILS(ENOENT, open(path, O_RDWR));
    // Without names it goes on.
    heir = fork();
    if (heir == 0) {
        count(lock, at);
        _exit(0);
    }
    GUEST_POINT();
    count(lock, again);
    say_end(heir);
    SAY("%d", at->count);
    SUCCESS();
}
