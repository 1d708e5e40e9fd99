// Stores into a shared mapping of a file are in the file at once, for whoever reads it; away from home, they bring the process there.
// calls: mmap msync munmap
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
    GUEST_POINT();
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), text[6] = {0};
    CHECK(shared != MAP_FAILED);
    memcpy(shared + 4090, "stored", 6);
    CHECK(pread(fd, text, 5, 4090) == 5);
    SAY("read: %s", text);
    pid_t child = fork();
    if (child == 0) {
        shared[0] = 'c';
        _exit(memcmp(shared + 4090, "stored", 6) == 0 ? 7 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("a child: %d, and what it stored: %c", WEXITSTATUS(status), shared[0]);
    CHECK(pwrite(fd, "written", 7, 8000) == 7);
    SAY("mapped: %.7s", shared + 8000);
    CHECK(msync(shared, 8192, MS_SYNC) == 0 && munmap(shared, 8192) == 0);
    SUCCESS();
}
