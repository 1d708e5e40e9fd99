// Children whose parents die: told by a signal, and given to the nearest ancestor that wants them.
// calls: prctl getppid wait4
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int ready[2], told[2], value = 9;
    char c;
    CHECK(pipe(ready) == 0 && pipe(told) == 0);
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value == 1);
    pid_t me = getpid(), child = fork();
    if (child == 0) {
        pid_t parent = getpid();
        if (fork() == 0) {
            CHECK(getppid() == parent);
            sigset_t set;
            sigemptyset(&set), sigaddset(&set, SIGUSR1);
            sigprocmask(SIG_BLOCK, &set, NULL);
            int signal = 9, taken;
            CHECK(prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal == 0);
            CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal == SIGUSR1);
            CHECK(write(ready[1], "r", 1) == 1);
            CHECK(sigwait(&set, &taken) == 0 && taken == SIGUSR1);
            CHECK(getppid() == me);
            _exit(6);
        }
        CHECK(read(ready[0], &c, 1) == 1);
        _exit(5);
    }
    GUEST_POINT();
    int status, sum = 0, count = 0;
    // The order in which the two ends are seen is open.
    while (waitpid(-1, &status, 0) > 0) count++, sum += WEXITSTATUS(status);
    SAY("%d children, sum of their statuses %d", count, sum);
    CHECK(prctl(PR_SET_NAME, "a-name") == 0);
    FILE *comm = fopen("/proc/self/comm", "r");
    char name[32] = {0};
    CHECK(comm && fgets(name, sizeof name, comm));
    SAY("named %s", strtok(name, "\n"));
    SUCCESS();
}
