// Locks of open files, flock(2).
// calls: flock
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a = open("f", O_CREAT | O_RDWR, 0600), b = open("f", O_RDWR);
    CHECK(RAW(flock, a, LOCK_SH) == 0 && RAW(flock, b, LOCK_SH | LOCK_NB) == 0);
    FAILS(EAGAIN, RAW(flock, a, LOCK_EX | LOCK_NB));
    CHECK(RAW(flock, b, LOCK_UN) == 0 && RAW(flock, a, LOCK_EX | LOCK_NB) == 0);
    GUEST_POINT();
    FAILS(EAGAIN, RAW(flock, b, LOCK_SH | LOCK_NB));
    int c = dup(a);
    close(a);
    FAILS(EAGAIN, RAW(flock, b, LOCK_SH | LOCK_NB));
    close(c);
    CHECK(RAW(flock, b, LOCK_EX | LOCK_NB) == 0);
    SAY("the lock went with its last descriptor");
    SUCCESS();
}
