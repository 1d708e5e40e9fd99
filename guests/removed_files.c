// Files that were removed, and are still open and mapped: read, written, grown, shared and mapped anew.
// calls: openat unlink mmap pread64 pwrite64 ftruncate lseek
#include "guest.h"

enum { SIZE = 5 * 4096 };

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char page[4096];
    int fd = open("kept", O_CREAT | O_RDWR, 0600), twin = open("kept", O_RDONLY);
    CHECK(fd >= 0 && twin >= 0);
    for (int i = 0; i < SIZE / 4096; i++) memset(page, 'a' + i, sizeof page), CHECK(write(fd, page, 4096) == 4096);
    char *m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    const char *seen = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, twin, 4096);
    CHECK(m != MAP_FAILED && seen != MAP_FAILED);
    memset(m + 4096, 'X', 4096);
    CHECK(lseek(fd, 7, SEEK_SET) == 7 && unlink("kept") == 0);
    int only_mapped = open("mapped", O_CREAT | O_RDWR, 0600);
    CHECK(write(only_mapped, "mapped, and nothing else", 24) == 24);
    const char *alone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, only_mapped, 0);
    CHECK(alone != MAP_FAILED && close(only_mapped) == 0 && unlink("mapped") == 0);
    put_file("kept", "another of that name");
    struct stat before, now, other;
    CHECK(fstat(fd, &before) == 0);
    GUEST_POINT();
    SAY("%.24s", alone);
    SAY("%c %c %c %c, file %c", m[0], m[4096], m[8192], m[SIZE - 1], seen[0]);
    CHECK(lseek(fd, 0, SEEK_CUR) == 7 && fstat(fd, &now) == 0 && fstat(twin, &other) == 0);
    SAY("links %ld, %ld bytes, the same inode: %d %d", (long)now.st_nlink, (long)now.st_size, now.st_ino == before.st_ino,
        other.st_ino == before.st_ino);
    CHECK(pwrite(fd, "new", 3, 8192) == 3 && pread(twin, page, 5, 8191) == 5);
    SAY("through the other: %.5s, in memory that was not written: %.3s", page, m + 8192);
    CHECK(ftruncate(fd, 2 * SIZE) == 0 && fstat(twin, &now) == 0 && now.st_size == 2 * SIZE);
    char *again = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, twin, 8192);
    CHECK(again != MAP_FAILED);
    SAY("mapped anew: %.3s", again);
    char name[64], target[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, target, sizeof target - 1);
    CHECK(length > 0);
    target[length] = 0;
    SAY("called %s", strrchr(target, '/') + 1);
    CHECK(fcntl(fd, F_GETFL) == fcntl(fd, F_GETFL) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
    FAILS(EBADF, write(twin, "x", 1));
    SAY("kept: %s", get_file("kept"));
    SUCCESS();
}
