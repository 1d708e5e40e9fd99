/* Every function of tern.h, one at a time: prints what came of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <tern.h>
#include <unistd.h>

extern char **environ;

static const char *name_of(int number)
{
    return number == ENXIO          ? "ENXIO"
           : number == EHOSTDOWN    ? "EHOSTDOWN"
           : number == EACCES       ? "EACCES"
           : number == ENOENT       ? "ENOENT"
           : number == EINVAL       ? "EINVAL"
           : number == EFAULT       ? "EFAULT"
           : number == ECHILD       ? "ECHILD"
           : number == ECONNREFUSED ? "ECONNREFUSED"
           : number == EPERM        ? "EPERM"
           : number == ENOMEM       ? "ENOMEM"
                                    : strerror(number);
}

static int failed(const char *call)
{
    int number = errno;
    /* No child is left of a call that failed. */
    int childless = waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
    printf("%s: %s%s\n", call, name_of(number), childless ? "" : ", and a child");
    return 1;
}

static int list_nodes(void)
{
    struct tern_node nodes[64];
    int count = tern_nodes(nodes, 64);
    if (count < 0)
        return failed("tern_nodes");
    for (int at = 0; at < count; at++)
        printf("%s %d %d %d:%d %04o\n", nodes[at].name, nodes[at].state, nodes[at].is_here, (int)nodes[at].owner,
               (int)nodes[at].group, nodes[at].mode);
    return 0;
}

static int choose(const char *text)
{
    char names[64][TERN_NAME_BYTES];
    int count = tern_choose(text, names, 64);
    if (count < 0)
        return failed("tern_choose");
    for (int at = 0; at < count; at++)
        printf("%s\n", names[at]);
    return 0;
}

/* Where each of the child's parts runs, as home says. */
static int rfork_to(const char *node)
{
    char here[TERN_NAME_BYTES];
    int status, local = 42;
    pid_t pid = tern_rfork(node);
    if (pid < 0)
        return failed("tern_rfork");
    if (pid == 0) {
        if (tern_node_of(0, here) < 0)
            _exit(failed("tern_node_of"));
        _exit(strcmp(here, node) || local != 42 ? 1 : 9);
    }
    waitpid(pid, &status, 0);
    printf("child ended with %d\n", WEXITSTATUS(status));
    return 0;
}

static int move_there_and_back(const char *node)
{
    char there[TERN_NAME_BYTES], back[TERN_NAME_BYTES];
    pid_t before = getpid();
    if (tern_move(node) < 0)
        return failed("tern_move");
    tern_node_of(0, there);
    if (tern_move(TERN_HOME) < 0)
        return failed("tern_move");
    tern_node_of(0, back);
    printf("%s %s %d\n", there, back, getpid() == before);
    return 0;
}

static int vrfork_on(int count, char **nodes)
{
    pid_t pids[64];
    int sum = 0, status, rank = tern_vrfork(count, (const char *const *)nodes, pids);
    if (rank < 0)
        return failed("tern_vrfork");
    if (rank < count)
        _exit(10 + rank);
    for (int at = 0; at < count; at++)
        if (pids[at] > 0 && waitpid(pids[at], &status, 0) == pids[at])
            sum += WEXITSTATUS(status);
        else
            printf("rank %d: %s\n", at, name_of(-pids[at]));
    printf("ranks add up to %d\n", sum);
    return 0;
}

static int vexecmove_on(int count, char **nodes)
{
    char *const argv[] = {"sh", "-c", "read -r line; echo \"rank $TERN_RANK ($BPROC_RANK) read: $line.\"; exit $TERN_RANK", NULL};
    struct tern_io io = {{-1, 1, 2}};
    pid_t pids[64];
    int status, came = tern_vexecmove_io(count, (const char *const *)nodes, pids, &io, "/bin/sh", argv, environ);
    if (came < 0)
        return failed("tern_vexecmove");
    for (int at = 0; at < count; at++)
        if (pids[at] < 0)
            printf("rank %d: %s\n", at, name_of(-pids[at]));
        else if (waitpid(pids[at], &status, 0) == pids[at])
            printf("rank %d ended with %d\n", at, WEXITSTATUS(status));
    printf("%d came\n", came);
    return 0;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "nodes"))
        return list_nodes();
    if (!strcmp(what, "choose") && count == 3)
        return choose(words[2]);
    if (!strcmp(what, "rfork") && count == 3)
        return rfork_to(words[2]);
    if (!strcmp(what, "move") && count == 3)
        return move_there_and_back(words[2]);
    if (!strcmp(what, "vrfork"))
        return vrfork_on(count - 2, words + 2);
    if (!strcmp(what, "vexecmove"))
        return vexecmove_on(count - 2, words + 2);
    if (!strcmp(what, "execmove") && count > 3) {
        tern_execmove(words[2], words[3], words + 3, environ);
        return failed("tern_execmove");
    }
    fprintf(stderr, "usage: calls nodes | choose NODES | move|rfork NODE | vrfork|vexecmove NODE... | execmove NODE PROGRAM...\n");
    return 2;
}
