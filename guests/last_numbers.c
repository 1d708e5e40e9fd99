// Descriptors at the last numbers that the limit allows, as valgrind has its own.
// calls: fcntl dup2 prlimit64
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct rlimit limit = {200, 200};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int fd = open("f", O_CREAT | O_RDWR, 0600), ends[2], counter = eventfd(5, 0);
    CHECK(pipe(ends) == 0 && write(fd, "abc", 3) == 3);
    CHECK(dup2(fd, 199) == 199 && dup2(ends[0], 198) == 198 && dup2(ends[1], 197) == 197 && dup2(counter, 196) == 196);
    CHECK(dup2(0, 195) == 195);
    close(fd), close(ends[0]), close(ends[1]), close(counter);
    GUEST_POINT();
    uint64_t count = 0;
    char b[8] = {0};
    CHECK(pread(199, b, 3, 0) == 3 && read(196, &count, 8) == 8 && write(197, "x", 1) == 1 && read(198, b + 3, 1) == 1);
    SAY("%s, %d", b, (int)count);
    CHECK(read(195, b, 4) == 4);
    FAILS(EBADF, dup2(199, 200));
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    SAY("%d %d", (int)limit.rlim_cur, (int)limit.rlim_max);
    SUCCESS();
}
