// Who locks what, and who waits for whom.
// calls: fcntl
#include "guest.h"

static int fd;

static int record(int command, int kind, int at, struct flock *out) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int result = fcntl(fd, command, &lock);
    *out = lock;
    return result;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    enum { HOLDERS = 3 };
    struct flock found;
    int pids[HOLDERS], up[2], go[2];
    char byte;
    put_file("f", "0123456789");
    fd = open("f", O_RDWR);
    GUEST_POINT();
    CHECK(fd >= 0 && pipe(up) == 0 && pipe(go) == 0);
    for (int i = 0; i < HOLDERS; i++) {
        if ((pids[i] = fork()) == 0) {
            close(go[1]);
            CHECK(record(F_SETLK, F_WRLCK, i, &found) == 0 && write(up[1], "x", 1) == 1);
            CHECK(read(go[0], &byte, 1) == 1);
            // Each waits for the next, and the last one for the first: one of them is told.
            int result = record(F_SETLKW, F_WRLCK, (i + 1) % HOLDERS, &found);
            _exit(result == 0 ? 0 : errno == EDEADLK ? 1 : 2);
        }
    }
    for (int i = 0; i < HOLDERS; i++)
        CHECK(read(up[0], &byte, 1) == 1);
    for (int i = HOLDERS - 1; i >= 0; i--) {
        CHECK(record(F_GETLK, F_RDLCK, i, &found) == 0 && found.l_type == F_WRLCK && found.l_start == i && found.l_len == 1);
        SAY("%d: by its holder %d", i, found.l_pid == pids[i]);
    }
    CHECK(write(go[1], "xxx", HOLDERS) == HOLDERS);
    int status, ends[3] = {0};
    for (int i = 0; i < HOLDERS; i++) {
        CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) < 3);
        ends[WEXITSTATUS(status)]++;
    }
    SAY("%d got it, %d were told, %d failed", ends[0], ends[1], ends[2]);

    // It wants the locks of two: one waits for it, the other does not.
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 2};
    for (int i = 0; i < 2; i++) {
        if ((pids[i] = fork()) == 0) {
            CHECK(record(F_SETLK, F_WRLCK, i, &found) == 0 && write(up[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
            _exit(i == 1 && record(F_SETLKW, F_WRLCK, 9, &found) != 0);
        }
    }
    CHECK(record(F_SETLK, F_WRLCK, 9, &found) == 0);
    CHECK(read(up[0], &byte, 1) == 1 && read(up[0], &byte, 1) == 1 && write(go[1], "xx", 2) == 2);
    int told = fcntl(fd, F_SETLKW, &all) != 0 && errno == EDEADLK;
    CHECK(record(F_SETLK, F_UNLCK, 9, &found) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(wait(&status) > 0), told += status != 0;
    SAY("%d of two told", told);
    CHECK(fcntl(fd, F_SETLKW, &all) == 0);
    SUCCESS();
}
