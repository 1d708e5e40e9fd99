/* BProc's names for old programs, on libtern. Nodes have numbers: 0 and up, in the order of tern_nodes(),
 * home left out; home is BPROC_NODE_MASTER. See libtern(3). */
#ifndef TERN_BPROC_H
#define TERN_BPROC_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tern.h>

#define BPROC_NODE_MASTER (-1)
#define BPROC_NODE_SELF (-2)
#define BPROC_NODES_MAX_ 4096

/* The name of a node's number; -1 and ENXIO if there is none. */
static inline int bproc_name_(int node, char name[TERN_NAME_BYTES])
{
    if (node == BPROC_NODE_MASTER) {
        strcpy(name, TERN_HOME);
        return 0;
    }
    struct tern_node *all = (struct tern_node *)calloc(BPROC_NODES_MAX_, sizeof *all);
    if (!all)
        return -1;
    int count = tern_nodes(all, BPROC_NODES_MAX_), number = 0, found = -1;
    for (int at = 0; at < count && at < BPROC_NODES_MAX_; at++)
        if (!all[at].is_here && number++ == node) {
            strcpy(name, all[at].name);
            found = 0;
        }
    free(all);
    if (found && count >= 0)
        errno = ENXIO;
    return found;
}

static inline int bproc_names_(int count, const int *nodes, const char **names)
{
    for (int at = 0; at < count; at++) {
        char *name = (char *)malloc(TERN_NAME_BYTES);
        names[at] = name;
        if (!name || bproc_name_(nodes[at], name))
            return -1;
    }
    return 0;
}

static inline void bproc_free_(int count, const char **names)
{
    for (int at = 0; names && at < count; at++)
        free((void *)names[at]);
    free(names);
}

static inline int bproc_numnodes(void)
{
    int count = tern_nodes(NULL, 0);
    return count < 0 ? -1 : count - 1;
}

static inline int bproc_move(int node)
{
    char name[TERN_NAME_BYTES];
    return bproc_name_(node, name) ? -1 : tern_move(name);
}

static inline pid_t bproc_rfork(int node)
{
    char name[TERN_NAME_BYTES];
    return bproc_name_(node, name) ? -1 : tern_rfork(name);
}

static inline int bproc_execmove(int node, const char *path, char *const argv[], char *const envp[])
{
    char name[TERN_NAME_BYTES];
    return bproc_name_(node, name) ? -1 : tern_execmove(name, path, argv, envp);
}

static inline int bproc_vrfork(int count, int *nodes, pid_t *pids)
{
    const char **names = (const char **)calloc(count > 0 ? count : 1, sizeof *names);
    int done = !names || bproc_names_(count, nodes, names) ? -1 : tern_vrfork(count, names, pids);
    bproc_free_(count, names);
    return done;
}

static inline int bproc_vexecmove(int count, int *nodes, pid_t *pids, const char *path, char *const argv[],
                                  char *const envp[])
{
    const char **names = (const char **)calloc(count > 0 ? count : 1, sizeof *names);
    int done = !names || bproc_names_(count, nodes, names) ? -1 : tern_vexecmove(count, names, pids, path, argv, envp);
    bproc_free_(count, names);
    return done;
}

#define BPROC_DUMP_LIBS 1
#define BPROC_DUMP_EXEC 2
#define BPROC_DUMP_OTHER 4
#define BPROC_DUMP_ALL 7

/* 0 in the undumped process, positive in the one that was dumped. Any flag puts all mapped files in. */
static inline int bproc_dump(int fd, int flags)
{
    return tern_dump(fd, flags & BPROC_DUMP_ALL ? TERN_DUMP_WHOLE : 0);
}

static inline int bproc_undump(int fd)
{
    return tern_undump(fd, 0);
}

#endif
