// Times of files, to the nanosecond.
// calls: utime utimes utimensat futimesat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "x");
    struct stat s;
    struct timespec ns[2] = {{1000000000, 123456789}, {1100000000, 987654321}};
    CHECK(RAW(utimensat, AT_FDCWD, "f", ns, 0) == 0 && stat("f", &s) == 0);
    SAY("%ld.%09ld %ld.%09ld", s.st_atim.tv_sec, s.st_atim.tv_nsec, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    GUEST_POINT();
    struct utimbuf u = {5, 6};
    CHECK(RAW(utime, "f", &u) == 0 && stat("f", &s) == 0);
    SAY("%ld %ld", s.st_atim.tv_sec, s.st_mtim.tv_sec);
    struct timeval us[2] = {{7, 1}, {8, 2}};
    CHECK(RAW(utimes, "f", us) == 0 && stat("f", &s) == 0);
    SAY("%ld %ld.%09ld", s.st_atim.tv_sec, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    CHECK(RAW(futimesat, AT_FDCWD, "f", us) == 0);
    struct timespec part[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    int fd = open("f", O_RDWR);
    CHECK(RAW(utimensat, fd, NULL, part, 0) == 0 && fstat(fd, &s) == 0);
    SAY("%ld, now: %s", s.st_atim.tv_sec, llabs(s.st_mtim.tv_sec - time(NULL)) < 100 ? "yes" : "no");
    SUCCESS();
}
