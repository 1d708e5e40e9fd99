// Other namespaces: new ones, and those of other processes.
#include "attack.h"

int main(void) {
    guard();
    HELD_OFF(RAW(unshare, CLONE_NEWUSER));
    HELD_OFF(RAW(unshare, CLONE_NEWNS));
    HELD_OFF(RAW(unshare, CLONE_NEWNET | CLONE_NEWPID));
    const char *kinds[] = {"mnt", "net", "pid", "user", "uts", "ipc", "cgroup", "time"};
    int joined = 0;
    char path[64];
    for (int pid = 1; pid < 5000; pid++)
        for (int i = 0; i < 8; i++) {
            snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kinds[i]);
            int fd = open(path, O_RDONLY);
            if (fd < 0) continue;
            if (pid != getpid()) joined += RAW(setns, fd, 0) == 0;
            close(fd);
        }
    errno = 0;
    attempt("setns to any process' namespaces", joined == 0);
    errno = 0;
    long child = RAW(clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    attempt("clone with a new user namespace", child == -1);
    OVER();
}
