// Signals to processes that are not its own. Signal 0 only: it asks whether another would be allowed.
#include "attack.h"

int main(void) {
    guard();
    int reached = 0;
    for (int pid = 1; pid < 40000; pid++)
        if (pid != getpid() && pid != getppid() && kill(pid, 0) == 0) {
            char path[64];
            snprintf(path, sizeof path, "/proc/%d", pid);
            struct stat s;
            // Another process of the same user at home is no prey.
            reached += stat(path, &s) != 0 || s.st_uid != getuid();
        }
    errno = 0;
    attempt("kill of any process", reached == 0);
    HELD_OFF(kill(1, SIGKILL));
    HELD_OFF(RAW(tgkill, 1, 1, SIGKILL));
    HELD_OFF(RAW(tkill, 1, SIGSTOP));
    siginfo_t info = {.si_signo = SIGKILL, .si_code = -1};
    HELD_OFF(RAW(rt_sigqueueinfo, 1, SIGKILL, &info));
    int fd = RAW(pidfd_open, 1, 0);
    errno = 0;
    attempt("pidfd_send_signal to process 1", fd < 0 || RAW(pidfd_send_signal, fd, SIGKILL, NULL, 0) == -1);
    OVER();
}
