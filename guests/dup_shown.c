// Duplicates of standard input and output, and of their duplicates, are what those are.
// calls: dup dup2 dup3 fcntl fstat lseek
#include "guest.h"

static void look(const char *how, int fd, int of) {
    struct stat here, there;
    CHECK(fstat(fd, &here) == 0 && fstat(of, &there) == 0);
    CHECK(here.st_ino == there.st_ino && here.st_dev == there.st_dev);
    SAY("%s: %s, seek %ld (%s)", how, S_ISFIFO(here.st_mode) ? "pipe" : S_ISCHR(here.st_mode) ? "device" : S_ISREG(here.st_mode) ? "file" : "other",
        (long)lseek(fd, 0, SEEK_CUR), strerror(errno));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int plain = RAW(dup, 1), first = fcntl(0, F_DUPFD, 20), closed = fcntl(1, F_DUPFD_CLOEXEC, 30);
    CHECK(plain > 2 && first == 20 && closed == 30);
    CHECK(RAW(dup2, 1, 40) == 40 && RAW(dup3, 0, 41, O_CLOEXEC) == 41);
    look("dup", plain, 1);
    look("F_DUPFD", first, 0);
    look("F_DUPFD_CLOEXEC", closed, 1);
    look("dup2", 40, 1);
    look("dup3", 41, 0);
    GUEST_POINT();
    int again = RAW(dup, 40), once_more = fcntl(again, F_DUPFD, 50);
    look("a duplicate's", again, 1);
    look("and its", once_more, 1);
    CHECK(RAW(dup2, 41, 60) == 60);
    look("dup2 of a duplicate", 60, 0);
    close(plain);
    CHECK(open("f", O_CREAT | O_RDWR, 0600) == plain && write(plain, "abc", 3) == 3);
    struct stat file;
    CHECK(fstat(plain, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 3 && lseek(plain, 0, SEEK_CUR) == 3);
    SUCCESS();
}
