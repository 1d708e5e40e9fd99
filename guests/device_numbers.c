// Numbers of file systems stay what they were: those of attributes, of mapped files and of mounts, for a process, its threads and children, and what these execute.
// calls: stat fstat lstat newfstatat statx
#include "guest.h"
#include <sys/sysmacros.h>

enum { SEEN = 16 };
typedef struct { dev_t devices[SEEN]; int count; } numbers;

static void see(numbers *all, dev_t device) {
    CHECK(all->count < SEEN);
    all->devices[all->count++] = device;
}

static dev_t of_statx(int at, const char *path, int flags) {
    struct statx found;
    CHECK(RAW(statx, at, path, flags, STATX_BASIC_STATS, &found) == 0);
    return makedev(found.stx_dev_major, found.stx_dev_minor);
}

// What /proc/self/maps says of the file that is mapped there.
static dev_t of_map(const void *at) {
    char line[512], begin[32];
    snprintf(begin, sizeof begin, "%lx-", (long)at);
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    unsigned major, minor;
    while (fgets(line, sizeof line, maps))
        if (strncmp(line, begin, strlen(begin)) == 0 && sscanf(line, "%*s %*s %*s %x:%x", &major, &minor) == 2) {
            CHECK(strstr(line, "/mapped\n"));
            fclose(maps);
            return makedev(major, minor);
        }
    CHECK(!"mapped");
    return 0;
}

static numbers look(int fd, const void *map) {
    numbers all = {.count = 0};
    struct stat found;
    CHECK(RAW(stat, ".", &found) == 0), see(&all, found.st_dev);
    CHECK(RAW(stat, "/", &found) == 0), see(&all, found.st_dev);
    CHECK(RAW(lstat, "link", &found) == 0), see(&all, found.st_dev);
    CHECK(RAW(fstat, fd, &found) == 0), see(&all, found.st_dev);
    CHECK(RAW(newfstatat, fd, "", &found, AT_EMPTY_PATH) == 0), see(&all, found.st_dev);
    CHECK(RAW(newfstatat, AT_FDCWD, "mapped", &found, 0) == 0), see(&all, found.st_dev);
    CHECK(RAW(newfstatat, AT_FDCWD, "link", &found, AT_SYMLINK_NOFOLLOW) == 0), see(&all, found.st_dev);
    see(&all, of_statx(AT_FDCWD, "mapped", 0));
    see(&all, of_statx(fd, "", AT_EMPTY_PATH));
    CHECK(RAW(stat, "/dev/null", &found) == 0), see(&all, found.st_dev);
    // Of descriptors 0 to 2 home is asked, unless they are files that are open here.
    int input = dup(0);
    CHECK(input >= 0 && dup2(fd, 0) == 0 && RAW(fstat, 0, &found) == 0 && S_ISREG(found.st_mode)), see(&all, found.st_dev);
    see(&all, of_statx(0, "", AT_EMPTY_PATH));
    int directory = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(dup2(directory, 0) == 0 && RAW(newfstatat, 0, "mapped", &found, 0) == 0), see(&all, found.st_dev);
    CHECK(RAW(newfstatat, 0, "none", &found, 0) == -1 && errno == ENOENT);
    CHECK(dup2(input, 0) == 0 && close(input) == 0 && close(directory) == 0);
    CHECK(RAW(stat, "/proc/self", &found) == 0), see(&all, found.st_dev);
    // A file system that tells maps another number than stat(2) does so everywhere: that stays the same, too.
    see(&all, of_map(map));
    return all;
}

static void compare(const char *who, const numbers *before, int fd, const void *map) {
    numbers now = look(fd, map);
    for (int i = 0; i < now.count; i++)
        if (now.devices[i] != before->devices[i])
            SAY("%s: number %d was %lx, is %lx", who, i, (long)before->devices[i], (long)now.devices[i]);
    SAY("%s: seen", who);
    CHECK(!fflush(stdout));
}

static struct { const numbers *before; int fd; void *map; } shared;

static void *in_thread(void *unused) {
    compare("a thread", shared.before, shared.fd, shared.map);
    return unused;
}

static void *map_of(int fd) {
    void *map = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(map != MAP_FAILED && *(volatile char *)map == 'x');
    return map;
}

int main(int argc, char **argv) {
    if (argc == 2) {
        numbers before;
        int from = open("numbers", O_RDONLY), fd = open("mapped", O_RDONLY);
        CHECK(read(from, &before, sizeof before) == sizeof before);
        compare("a program", &before, fd, map_of(fd));
        return 0;
    }
    put_file("mapped", "x");
    CHECK(symlink("mapped", "link") == 0);
    int fd = open("mapped", O_RDONLY), kept = open("numbers", O_CREAT | O_RDWR, 0600);
    void *map = map_of(fd);
    numbers before = look(fd, map);
    CHECK(write(kept, &before, sizeof before) == sizeof before);
    GUEST_POINT();
    // One that began away (the harness has it bind at once then) has seen that place's numbers; from its first move on they are home's.
    if (getenv("LD_BIND_NOW")) {
        before = look(fd, map);
        CHECK(pwrite(kept, &before, sizeof before, 0) == sizeof before);
    }
    compare("itself", &before, fd, map);
    pthread_t thread;
    shared.before = &before, shared.fd = fd, shared.map = map;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    for (int executes = 0; executes < 2; executes++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (executes) execl("/proc/self/exe", argv[0], "compare", NULL), _exit(1);
            compare("a child", &before, fd, map);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    SUCCESS();
}
