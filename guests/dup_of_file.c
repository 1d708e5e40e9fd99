// Duplicates of standard input that is a file share its place in it.
// input: file
// calls: dup dup2 fcntl lseek
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char byte;
    int plain = RAW(dup, 0), high = fcntl(0, F_DUPFD, 20);
    CHECK(plain > 2 && high == 20 && RAW(dup2, 0, 40) == 40);
    CHECK(lseek(plain, 100, SEEK_SET) == 100 && lseek(0, 0, SEEK_CUR) == 100);
    CHECK(lseek(0, 10, SEEK_CUR) == 110 && lseek(high, 0, SEEK_CUR) == 110);
    GUEST_POINT();
    CHECK(read(40, &byte, 1) == 1 && lseek(plain, 0, SEEK_CUR) == 111);
    int again = RAW(dup, high);
    CHECK(lseek(again, -11, SEEK_CUR) == 100 && lseek(0, 0, SEEK_CUR) == 100);
    struct stat here, there;
    CHECK(fstat(again, &here) == 0 && fstat(0, &there) == 0 && here.st_ino == there.st_ino && here.st_size == there.st_size);
    SAY("size %ld, end %ld", (long)here.st_size, (long)lseek(again, 0, SEEK_END));
    SUCCESS();
}
