// What the standard descriptors are.
// calls: fstat newfstatat statx lseek ioctl fcntl
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int fd = 0; fd < 3; fd++) {
        struct stat s, t;
        struct statx x;
        CHECK(RAW(fstat, fd, &s) == 0 && RAW(newfstatat, fd, "", &t, AT_EMPTY_PATH) == 0 && s.st_ino == t.st_ino && s.st_mode == t.st_mode);
        CHECK(RAW(statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0 && x.stx_mode == s.st_mode && x.stx_ino == s.st_ino);
        // No path from there, whatever it is.
        CHECK(RAW(newfstatat, fd, "/", &t, 0) == 0 && S_ISDIR(t.st_mode) && RAW(statx, fd, "/", 0, STATX_BASIC_STATS, &x) == 0 && S_ISDIR(x.stx_mode));
        GUEST_POINT();
        long position = lseek(fd, 0, SEEK_CUR);
        SAY("%d: kind %o, access %d, seek %s, terminal %s", fd, s.st_mode & S_IFMT, fcntl(fd, F_GETFL) & O_ACCMODE,
            position >= 0 ? "yes" : strerrorname_np(errno), isatty(fd) ? "yes" : strerrorname_np(errno));
        char to[64] = {0}, path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, to, sizeof to - 1);
        CHECK(n > 0);
        if (S_ISFIFO(s.st_mode)) SAY("named %.6s", to);
    }
    SUCCESS();
}
