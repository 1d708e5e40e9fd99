// Permission bits.
// calls: chmod fchmod fchmodat umask
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct stat s;
    CHECK(RAW(umask, 027) >= 0);
    int fd = open("f", O_CREAT | O_RDWR, 0666);
    CHECK(fstat(fd, &s) == 0);
    SAY("made %o", s.st_mode);
    CHECK(RAW(fchmod, fd, 0123) == 0 && fstat(fd, &s) == 0);
    SAY("fchmod %o", s.st_mode);
    GUEST_POINT();
    CHECK(RAW(chmod, "f", 04755) == 0 && stat("f", &s) == 0);
    SAY("chmod %o", s.st_mode);
    CHECK(RAW(fchmodat, AT_FDCWD, "f", 0600) == 0 && stat("f", &s) == 0);
    SAY("fchmodat %o", s.st_mode);
    SAY("umask %lo", RAW(umask, 0));
    CHECK(mkdir("d", 0777) == 0 && stat("d", &s) == 0);
    SAY("d %o", s.st_mode);
    SUCCESS();
}
