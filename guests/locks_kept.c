// Locks that a process holds when it is moved: of records, of open files; a child finds them held, wherever each of them is.
// calls: fcntl flock
#include "guest.h"

static const char *locked(int fd, int type, int command, off_t start) {
    struct flock lock = {.l_type = type, .l_start = start, .l_len = 1};
    CHECK(fcntl(fd, command, &lock) == 0);
    return lock.l_type == F_UNLCK ? "free" : lock.l_type == F_RDLCK ? "read" : "written";
}

// What another process finds.
static void others(void) {
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int records = open("records", O_RDWR), file = open("file", O_RDWR), flocked = open("flocked", O_RDWR);
        SAY("records: %s %s %s; of the open file: %s %s", locked(records, F_WRLCK, F_GETLK, 0), locked(records, F_WRLCK, F_GETLK, 10),
            locked(records, F_RDLCK, F_GETLK, 10), locked(file, F_WRLCK, F_GETLK, 5), locked(file, F_WRLCK, F_GETLK, 6));
        SAY("flock: %s", flock(flocked, LOCK_SH | LOCK_NB) == 0 ? "free" : strerrorname_np(errno));
        fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(child, 0, 0) == child);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int records = open("records", O_CREAT | O_RDWR, 0600), again = open("records", O_RDWR), file = open("file", O_CREAT | O_RDWR, 0600);
    int flocked = open("flocked", O_CREAT | O_RDWR, 0600);
    CHECK(write(records, "0123456789abcdef", 16) == 16);
    struct flock write_lock = {.l_type = F_WRLCK, .l_len = 10}, read_lock = {.l_type = F_RDLCK, .l_start = 10, .l_len = 5};
    struct flock own = {.l_type = F_WRLCK, .l_start = 5, .l_len = 1};
    CHECK(fcntl(records, F_SETLK, &write_lock) == 0 && fcntl(records, F_SETLK, &read_lock) == 0 && fcntl(file, F_OFD_SETLK, &own) == 0);
    CHECK(flock(flocked, LOCK_EX) == 0);
    others();
    GUEST_POINT();
    others();
    char b[8] = {0};
    CHECK(pread(again, b, 4, 3) == 4 && pwrite(records, "XYZ", 3, 4) == 3 && pread(again, b + 4, 3, 4) == 3);
    SAY("%s; a process does not lock itself out: %s", b, locked(again, F_WRLCK, F_GETLK, 0));
    // Half of it is given up, and something else taken.
    struct flock half = {.l_type = F_UNLCK, .l_len = 5}, more = {.l_type = F_WRLCK, .l_start = 10, .l_len = 5};
    CHECK(fcntl(again, F_SETLK, &half) == 0 && fcntl(again, F_SETLK, &more) == 0);
    CHECK(flock(flocked, LOCK_SH) == 0);
    own.l_type = F_UNLCK;
    CHECK(fcntl(file, F_OFD_SETLK, &own) == 0);
    others();
    close(again);
    CHECK(flock(flocked, LOCK_UN) == 0);
    others();
    SUCCESS();
}
