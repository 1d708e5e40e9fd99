// Looking into other processes: the room's first, and whatever has a number that processes of this machine and of home are likely to have.
#include "attack.h"

int main(void) {
    guard();
    int reached = 0;
    char path[64];
    for (int pid = 1; pid < 8192; pid++) {
        if (pid == getpid()) continue;
        const char *names[] = {"mem", "exe", "fd/0", "environ"};
        for (int i = 0; i < 4; i++) {
            snprintf(path, sizeof path, "/proc/%d/%s", pid, names[i]);
            struct stat s;
            int fd = open(path, i ? O_RDONLY : O_RDWR);
            if (fd >= 0) reached += fstat(fd, &s) == 0 && pid == 1, close(fd);
        }
    }
    errno = 0;
    attempt("memory, program and descriptors of process 1", reached == 0);
    HELD_OFF(ptrace(PTRACE_SEIZE, 1, 0, 0));
    HELD_OFF(ptrace(PTRACE_ATTACH, getppid(), 0, 0));
    HELD_OFF(ptrace(PTRACE_TRACEME, 0, 0, 0));
    char b[8];
    struct iovec here = {b, 8}, there = {(void *)0x400000, 8};
    HELD_OFF(process_vm_readv(1, &here, 1, &there, 1, 0));
    HELD_OFF(process_vm_writev(getppid(), &here, 1, &there, 1, 0));
    int one = RAW(pidfd_open, 1, 0);
    errno = 0;
    attempt("pidfd_getfd of process 1", one < 0 || RAW(pidfd_getfd, one, 0, 0) == -1);
    HELD_OFF(RAW(kcmp, 1, getpid(), 0, 0, 0));
    int self = open("/proc/self/exe", O_RDWR);
    errno = 0;
    attempt("writing to the program's own file", self < 0);
    OVER();
}
