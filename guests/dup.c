// Duplicates of descriptors and their flags.
// calls: dup dup2 dup3 fcntl
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    int a = RAW(dup, fd);
    CHECK(a > fd && RAW(dup2, fd, 50) == 50 && RAW(dup3, fd, 51, O_CLOEXEC) == 51);
    CHECK(write(a, "abc", 3) == 3);
    GUEST_POINT();
    SAY("shared position %ld", (long)lseek(50, 0, SEEK_CUR));
    SAY("close on exec %d %d %d %d", fcntl(fd, F_GETFD), fcntl(a, F_GETFD), fcntl(50, F_GETFD), fcntl(51, F_GETFD));
    CHECK(fcntl(fd, F_DUPFD, 60) == 60 && fcntl(fd, F_DUPFD_CLOEXEC, 60) == 61 && fcntl(61, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0 && (fcntl(51, F_GETFL) & O_APPEND) && (fcntl(51, F_GETFL) & O_ACCMODE) == O_RDWR);
    CHECK(fcntl(60, F_SETFD, FD_CLOEXEC) == 0 && fcntl(60, F_GETFD) == 1);
    FAILS(EINVAL, RAW(dup3, fd, fd, 0));
    FAILS(EBADF, RAW(dup, 999));
    CHECK(RAW(dup2, fd, fd) == fd);
    SUCCESS();
}
