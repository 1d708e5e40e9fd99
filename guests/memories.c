// Shared memory that one process has: without a name, and as files in memory, mapped in parts, twice, privately, sealed. Children share it afterwards.
// calls: mmap memfd_create mremap mprotect fork
#include "guest.h"
#ifndef MREMAP_FIXED
#define MREMAP_FIXED 2
#endif

enum { PAGE = 4096, SIZE = 16 * PAGE };

static char *shared(int fd, int protection, int flags, off_t offset) {
    char *m = mmap(NULL, SIZE, protection, flags, fd, offset);
    CHECK(m != MAP_FAILED);
    return m;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    // Without a name: split by protections, with a hole, and a second mapping of a part.
    char *m = shared(-1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, 0);
    for (int i = 0; i < SIZE; i += PAGE) m[i] = 'a' + i / PAGE;
    char *twin = mremap(m + 4 * PAGE, 0, 2 * PAGE, MREMAP_MAYMOVE);
    CHECK(twin != MAP_FAILED);
    CHECK(mprotect(m + PAGE, PAGE, PROT_READ) == 0 && munmap(m + 2 * PAGE, PAGE) == 0);
    char *untouched = shared(-1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, 0);
    // A file in memory whose descriptor is closed, one that is not mapped, and one that nobody may write.
    int gone = memfd_create("gone", 0), kept = memfd_create("kept file", MFD_CLOEXEC), sealed = memfd_create("", MFD_ALLOW_SEALING);
    CHECK(ftruncate(gone, 100) == 0);
    char *left = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, gone, 0);
    CHECK(left != MAP_FAILED && close(gone) == 0);
    strcpy(left, "its descriptor is closed");
    CHECK(write(kept, "kept", 4) == 4 && lseek(kept, 5 << 20, SEEK_SET) == 5 << 20 && write(kept, "far", 3) == 3);
    CHECK(fchmod(kept, 0640) == 0 && lseek(kept, 2, SEEK_SET) == 2);
    CHECK(ftruncate(sealed, SIZE) == 0 && pwrite(sealed, "sealed", 6, PAGE) == 6);
    CHECK(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW) == 0);
    char *readable = shared(sealed, PROT_READ, MAP_SHARED, 0), *copy = shared(sealed, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
    strcpy(copy + 2 * PAGE, "a copy");
    int empty = memfd_create("empty", 0), twice = dup(kept);
    GUEST_POINT();
    SAY("%c %c %c %c %c, %c %c", m[0], m[PAGE], m[3 * PAGE], m[4 * PAGE], m[SIZE - PAGE], twin[0], twin[PAGE]);
    twin[PAGE] = 'Z', m[4 * PAGE] = 'Y';
    SAY("one memory: %c %c, zeros: %d", m[5 * PAGE], twin[0], untouched[SIZE - 1]);
    SAY("%s; %s, %s, %d", left, readable + PAGE, copy + 2 * PAGE, copy[PAGE]);
    char b[8] = {0};
    struct stat s;
    CHECK(read(kept, b, 2) == 2 && fstat(kept, &s) == 0);
    SAY("%s, %ld bytes, mode %o", b, (long)s.st_size, s.st_mode & 0777);
    CHECK(lseek(twice, 5 << 20, SEEK_SET) == 5 << 20 && read(kept, b, 8) == 3);
    SAY("%.3s, shared offset %ld", b, (long)lseek(twice, 0, SEEK_CUR));
    CHECK(write(empty, "x", 1) == 1);
    FAILS(EPERM, pwrite(sealed, "x", 1, 0));
    SAY("seals: %x %x", fcntl(sealed, F_GET_SEALS), fcntl(kept, F_GET_SEALS));
    if (fork() == 0) {
        m[0] = 'C', untouched[0] = 'D', left[0] = 'I', copy[0] = 'P';
        CHECK(pwrite(kept, "child", 5, 0) == 5);
        _exit(0);
    }
    CHECK(wait(NULL) > 0 && pread(twice, b, 5, 0) == 5);
    SAY("from a child: %c %c %c, %.5s; not shared: %d", m[0], untouched[0], left[0], b, copy[0]);
    FAILS(EACCES, mprotect(readable, PAGE, PROT_READ | PROT_WRITE));
    SUCCESS();
}
