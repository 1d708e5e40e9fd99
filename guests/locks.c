// Record locks of processes and of open files.
// calls: fcntl
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a = open("f", O_CREAT | O_RDWR, 0600), b = open("f", O_RDWR);
    struct flock all = {.l_type = F_WRLCK}, part = {.l_type = F_WRLCK, .l_start = 10, .l_len = 5};
    CHECK(fcntl(a, F_SETLK, &all) == 0 && fcntl(b, F_SETLK, &part) == 0);
    SAY("a process does not lock itself out");
    all.l_type = F_UNLCK;
    CHECK(fcntl(a, F_SETLK, &all) == 0);
    CHECK(fcntl(a, F_OFD_SETLK, &part) == 0);
    GUEST_POINT();
    FAILS(EAGAIN, fcntl(b, F_OFD_SETLK, &part));
    part.l_start = 15;
    CHECK(fcntl(b, F_OFD_SETLK, &part) == 0);
    struct flock ask = {.l_type = F_WRLCK, .l_start = 12, .l_len = 1};
    CHECK(fcntl(b, F_OFD_GETLK, &ask) == 0);
    SAY("held: type %d from %ld, %ld bytes", ask.l_type, (long)ask.l_start, (long)ask.l_len);
    close(a);
    part.l_start = 10;
    CHECK(fcntl(b, F_OFD_SETLK, &part) == 0);
    SUCCESS();
}
