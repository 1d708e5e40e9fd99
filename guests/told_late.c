// What /proc says of descriptors that stay at home, and what a parent may do with a child that has executed a program.
// calls: setpgid inotify_init1 inotify_add_watch
#include "guest.h"
#include <sys/inotify.h>

// The lines of /proc/self/fdinfo/FD that do not say where it is.
static void say_info(const char *name, int fd) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *info = fopen(path, "r");
    CHECK(info);
    while (fgets(line, sizeof line, info)) {
        line[strcspn(line, "\n")] = 0;
        unsigned wd, mask;
        if (strncmp(line, "flags:", 6) == 0) SAY("%s: %s", name, line);
        if (strncmp(line, "inotify", 7) == 0) {
            CHECK(sscanf(line, "inotify wd:%x ino:%*x sdev:%*x mask:%x", &wd, &mask) == 2);
            SAY("%s: watches %x for %x", name, wd, mask);
        }
    }
    fclose(info);
}

static pid_t child(bool executes) {
    int ready[2];
    CHECK(pipe2(ready, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (executes) execl("/proc/self/exe", "child", "waits", NULL), _exit(1);
        CHECK(write(ready[1], "r", 1) == 1);
        for (;;) pause();
    }
    close(ready[1]);
    char got;
    // Its own end closes when it executes.
    CHECK(read(ready[0], &got, 1) == !executes && close(ready[0]) == 0);
    return pid;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc == 2)
        for (;;) pause();
    int watch = inotify_init1(IN_CLOEXEC), other = inotify_init1(IN_NONBLOCK);
    CHECK(watch >= 0 && other >= 0 && inotify_add_watch(watch, ".", IN_CREATE | IN_DELETE) == 1);
    say_info("watching", watch), say_info("other", other);
    GUEST_POINT();
    CHECK(fcntl(watch, F_SETFD, 0) == 0 && inotify_add_watch(other, ".", IN_CREATE) == 1);
    say_info("kept", watch), say_info("other", other);
    for (int executes = 0; executes < 2; executes++) {
        pid_t pid = child(executes);
        errno = 0;
        int result = setpgid(pid, pid);
        SAY("%s: %d %s", executes ? "has executed" : "has not", result, result ? strerrorname_np(errno) : "");
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    }
    SUCCESS();
}
