// What kind of file each descriptor is, by all calls that tell, for its owner, a child that it made, and what that executes.
// calls: fstat newfstatat statx
#include "guest.h"
#include <pty.h>
#include <sys/inotify.h>

static const char *kind(mode_t mode) {
    return S_ISSOCK(mode) ? "socket" : S_ISFIFO(mode) ? "pipe" : S_ISCHR(mode) ? "device" : S_ISDIR(mode) ? "directory" : S_ISREG(mode) ? "file" : "none";
}

static bool is(int fd, const char *wanted) {
    struct stat a, b;
    struct statx c;
    CHECK(fstat(fd, &a) == 0 && fstatat(fd, "", &b, AT_EMPTY_PATH) == 0);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &c) == 0);
    CHECK(a.st_mode == b.st_mode && a.st_mode == c.stx_mode && a.st_ino == b.st_ino && a.st_ino == c.stx_ino);
    if (strcmp(kind(a.st_mode), wanted) == 0) return true;
    SAY("%d is a %s, not a %s", fd, kind(a.st_mode), wanted);
    return false;
}

static struct {
    int fd;
    const char *kind;
} all[32];
// Those at the end have one owner: a process that has them in common with another stays where it is.
static int count, common;

static void add(int fd, const char *kind) {
    CHECK(fd >= 0 && fcntl(fd, F_SETFD, 0) == 0);
    all[count].fd = fd, all[count++].kind = kind;
}

static bool all_are(void) {
    bool are = true;
    for (int i = 0; i < count; i++) are &= is(all[i].fd, all[i].kind);
    return are;
}

static void make(void) {
    int two[2], master, slave;
    add(socket(AF_INET, SOCK_STREAM, 0), "socket"), add(socket(AF_UNIX, SOCK_DGRAM, 0), "socket");
    CHECK(pipe(two) == 0);
    add(two[0], "pipe"), add(two[1], "pipe");
    CHECK(openpty(&master, &slave, NULL, NULL, NULL) == 0);
    add(master, "device"), add(slave, "device");
    add(open("/dev/null", O_RDWR), "device"), add(open("/dev/full", O_RDWR), "device");
    add(open("/", O_RDONLY | O_DIRECTORY), "directory"), add(open(".", O_PATH), "directory");
    add(open("file", O_RDWR | O_CREAT, 0600), "file");
    add(inotify_init1(0), "none");
    common = count;
    add(open("/proc/self/status", O_RDONLY), "file");
    add(eventfd(0, 0), "none"), add(epoll_create1(0), "none"), add(timerfd_create(CLOCK_MONOTONIC, 0), "none");
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "executed") == 0) {
        for (int i = 2; i + 1 < argc; i += 2) add(atoi(argv[i]), argv[i + 1]);
        _exit(all_are() ? 0 : 1);
    }
    make();
    SAY("before: %d", all_are());
    // The child has most in common with its parent, and looks when that was moved.
    int go[2], status;
    CHECK(pipe(go) == 0);
    int child = fork();
    if (child == 0) {
        char c;
        close(go[1]);
        while (count > common) close(all[--count].fd);
        CHECK(read(go[0], &c, 1) == 1);
        bool are = all_are();
        char numbers[32][8], *arguments[70] = {argv[0], "executed"};
        for (int i = 0; i < count; i++) {
            sprintf(numbers[i], "%d", all[i].fd);
            arguments[2 + 2 * i] = numbers[i], arguments[3 + 2 * i] = (char *)all[i].kind;
        }
        if (!are) _exit(2);
        execv("/proc/self/exe", arguments);
        _exit(3);
    }
    GUEST_POINT();
    SAY("after: %d", all_are());
    CHECK(write(go[1], "!", 1) == 1 && waitpid(child, &status, 0) == child);
    SAY("child: %d", status);
    // Numbers that are used again, and offsets.
    struct stat file;
    int fd = all[10].fd;
    CHECK(pwrite(fd, "12345", 5, 0) == 5 && lseek(fd, 3, SEEK_SET) == 3 && fstat(fd, &file) == 0 && file.st_size == 5);
    CHECK(dup2(fd, all[0].fd) == all[0].fd && is(all[0].fd, "file") && lseek(all[0].fd, 0, SEEK_CUR) == 3);
    CHECK(dup2(all[1].fd, fd) == fd && is(fd, "socket"));
    FAILS(ESPIPE, lseek(fd, 0, SEEK_CUR));
    FAILS(EBADF, fstat(99, &file));
    FAILS(ENOENT, fstatat(all[8].fd, "no such name", &file, 0));
    FAILS(ENOTDIR, fstatat(all[2].fd, "name", &file, 0));
    SUCCESS();
}
