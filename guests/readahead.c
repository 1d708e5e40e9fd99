// Advice on what will be read.
// calls: readahead fadvise64
#include "guest.h"
#include <sys/inotify.h>

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "0123456789");
    int fd = open("f", O_RDONLY), p[2];
    CHECK(RAW(fadvise64, fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0 && RAW(fadvise64, fd, 0, 0, POSIX_FADV_WILLNEED) == 0);
    GUEST_POINT();
    CHECK(RAW(readahead, fd, 0, 10) == 0 && RAW(fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    SAY("f: %s", get_file("f"));
    FAILS(EBADF, RAW(readahead, 999, 0, 10));
    CHECK(pipe(p) == 0);
    FAILS(ESPIPE, RAW(fadvise64, p[0], 0, 0, POSIX_FADV_NORMAL));
    FAILS(EINVAL, RAW(readahead, p[0], 0, 10));
    FAILS(EINVAL, RAW(readahead, socket(AF_INET, SOCK_DGRAM, 0), 0, 10));
    FAILS(EINVAL, RAW(readahead, inotify_init(), 0, 10));
    SUCCESS();
}
