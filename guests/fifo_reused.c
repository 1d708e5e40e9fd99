// A file that gets the inode number of a FIFO that was removed is none: who has it open goes home for a shared mapping.
// calls: mknod mknodat open unlink
#include "guest.h"
#include <sys/mman.h>

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct stat fifo, file;
    int fd = -1;
    CHECK(mkfifo("p", 0600) == 0);
    int end = open("p", O_RDWR);
    CHECK(end >= 0 && stat("p", &fifo) == 0 && close(end) == 0 && unlink("p") == 0);
    for (int n = 0; n < 100; n++) {
        char name[16];
        sprintf(name, "f%d", n);
        CHECK((fd = open(name, O_CREAT | O_RDWR, 0600)) >= 0 && ftruncate(fd, 4096) == 0 && fstat(fd, &file) == 0);
        if (file.st_ino == fifo.st_ino) break;
        if (n < 99) close(fd);
    }
    GUEST_POINT();
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED);
    strcpy(shared, "mapped");
    CHECK(munmap(shared, 4096) == 0);
    char seen[8] = "";
    CHECK(pread(fd, seen, 7, 0) == 7);
    SAY("%s", seen);
    SUCCESS();
}
