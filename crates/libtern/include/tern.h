/* tern: one process space out of several Linux machines. See libtern(3). */
#ifndef TERN_H
#define TERN_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a node's name, the zero byte included. */
#define TERN_NAME_BYTES 64
/* The name of the machine that a program was started on. */
#define TERN_HOME "home"

/* States of a node. */
#define TERN_NODE_DOWN 0
#define TERN_NODE_UP 1
#define TERN_NODE_SUSPENDED 2
#define TERN_NODE_UNAVAILABLE 3 /* root of home alone uses it (tern nodes --set) */

struct tern_node {
    char name[TERN_NAME_BYTES];
    int state;
    int is_here;        /* it is the node that was asked */
    int cores;          /* 0: not known */
    int runnable_milli; /* runnable tasks, thousandths; -1: not known */
    uid_t owner;        /* who of home may use it: owner, group, execute bits */
    gid_t group;
    mode_t mode;
};

struct tern_process {
    int pid; /* at home */
    int uid;
    int state; /* a letter, as in /proc/PID/stat */
    int threads;
    char node[TERN_NAME_BYTES];
};

/* Descriptors of the caller that become 0, 1 and 2 of the child; -1: /dev/null. */
struct tern_io {
    int fds[3];
};

/* All return -1 and set errno on failure. Lists: how many there are; at most `most` are written. */
int tern_nodes(struct tern_node *nodes, int most);
int tern_processes(struct tern_process *processes, int most);
int tern_node_of(pid_t pid, char node[TERN_NAME_BYTES]);
int tern_choose(const char *nodes, char (*names)[TERN_NAME_BYTES], int most);

/* The calling process, with its memory and home's files. */
int tern_move(const char *node);
pid_t tern_rfork(const char *node);
int tern_vrfork(int count, const char *const nodes[], pid_t pids[]);

/* A program, in node-local mode: the node's own files and network. */
int tern_execmove(const char *node, const char *path, char *const argv[], char *const envp[]);
int tern_vexecmove(int count, const char *const nodes[], pid_t pids[], const char *path, char *const argv[],
                   char *const envp[]);
int tern_vexecmove_io(int count, const char *const nodes[], pid_t pids[], const struct tern_io *io, const char *path,
                      char *const argv[], char *const envp[]);

/* A process as a stream, to and from any descriptor. No ternd is needed; tern(1) is. */
#define TERN_DUMP_IGNORE_FILES 1 /* leave out open files that cannot be dumped */
#define TERN_DUMP_IGNORE_LOCKS 2 /* leave out locks of files */
#define TERN_DUMP_WHOLE 4        /* with the pages of mapped files */
#define TERN_UNDUMP_CLOSE_MISSING 1 /* leave descriptors closed whose files are not there */
#define TERN_UNDUMP_ANY_FILES 2     /* map files that are others than at the dump */
#define TERN_UNDUMP_ANY_CPU 4       /* allow a processor that lacks features */

/* The calling process: 1 in it, 0 in a process that was made from the dump. */
int tern_dump(int fd, int flags);
int tern_dump_pid(pid_t pid, int fd, int flags);
/* The caller becomes the dumped process. Returns only on failure. */
int tern_undump(int fd, int flags);

#ifdef __cplusplus
}
#endif
#endif
