// Choosing numbers of processes.
#include "attack.h"

int main(void) {
    guard();
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    errno = 0;
    attempt("writing ns_last_pid", fd < 0 || write(fd, "4000", 4) == -1);
    fd = open("/proc/sys/kernel/pid_max", O_WRONLY);
    errno = 0;
    attempt("writing pid_max", fd < 0 || write(fd, "400", 3) == -1);
    pid_t wanted[1] = {3999};
    uint64_t args[11] = {[4] = SIGCHLD, [8] = (uint64_t)wanted, [9] = 1};
    errno = 0;
    long child = RAW(clone3, args, sizeof args);
    if (child == 0) _exit(0);
    attempt("clone3 with set_tid", child == -1);
    OVER();
}
