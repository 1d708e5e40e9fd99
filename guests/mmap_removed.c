// A file that is mapped shared and writable, and that nobody else can reach any more, is memory: as semaphores of sem_open(3) are that were unlinked at once.
// calls: mmap unlink mremap msync fork
#include "guest.h"

enum { PAGE = 4096, SIZE = 3 * PAGE };

static char *map(int fd, int protection, int flags) {
    char *m = mmap(NULL, SIZE, protection, flags, fd, 0);
    CHECK(m != MAP_FAILED);
    return m;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0 && pwrite(fd, "from the file", 13, PAGE) == 13);
    char *m = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED), *readable = map(fd, PROT_READ, MAP_SHARED), *copy = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    strcpy(copy + 100, "a copy");
    CHECK(unlink("f") == 0 && close(fd) == 0);
    strcpy(m, "stored");
    GUEST_POINT();
    SAY("%s, %s, %s, %d", readable, m + PAGE, copy + 100, m[100]);
    strcpy(m + PAGE, "stored later");
    SAY("%s", readable + PAGE);
    if (fork() == 0) {
        strcpy(m, "by a child"), strcpy(copy, "not seen");
        _exit(0);
    }
    CHECK(wait(NULL) > 0);
    SAY("%s, %s", readable, strcmp(copy, "not seen") ? "its own" : "shared");
    CHECK(msync(m, 2 * PAGE, MS_SYNC) == 0 && munmap(m, SIZE) == 0);
    SAY("still %s", readable);
    SUCCESS();
}
