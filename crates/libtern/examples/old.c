/* A program for BProc, unchanged but for the library that it is linked with. */
#include <bproc.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(void)
{
    int nodes[2] = {0, 1}, pids[2], status, sum = 0;
    char *const argv[] = {"sh", "-c", "exit $((BPROC_RANK + 1))", NULL};
    printf("%d nodes\n", bproc_numnodes());
    if (bproc_vexecmove(2, nodes, pids, "/bin/sh", argv, environ) < 0) {
        perror("bproc_vexecmove");
        return 1;
    }
    for (int at = 0; at < 2; at++)
        if (pids[at] > 0 && waitpid(pids[at], &status, 0) > 0)
            sum += WEXITSTATUS(status);
    printf("ends add up to %d\n", sum);
    if (bproc_move(99) == -1)
        perror("bproc_move");
    return 0;
}
