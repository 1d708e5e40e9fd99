/* The test program of BProc's paper: a copy of this process on every node, which forks until there
 * are COUNT on each. All are processes of home: ps shows them, and signals reach them. They wait
 * until SIGTERM or SIGINT comes. The end says that all were reaped. NODES `here:N` stands for N
 * copies that stay: the same with fork(2) alone. KIB of memory are filled first. With the word
 * `check` each copy fails if its memory is not the caller's, and changes it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tern.h>

#define NODES_MAX 1024

static char names[NODES_MAX][TERN_NAME_BYTES];
static const char *nodes[NODES_MAX];
static pid_t pids[NODES_MAX];
static volatile long *memory;

static void hear(int signal)
{
    (void)signal;
}

/* SIGTERM and SIGINT: `action` is what they do, `how` whether they wait. */
static void ends(void (*action)(int), int how)
{
    struct sigaction wanted = {.sa_handler = action};
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, SIGINT);
    sigaction(SIGTERM, &wanted, NULL);
    sigaction(SIGINT, &wanted, NULL);
    sigprocmask(how, &both, NULL);
}

static void wait_for_end(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigsuspend(&none);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The first process of a node: makes the others, says how many there are, and reaps them. */
static int lead(int count, int report)
{
    int made = 1, reaped = 0, status;
    for (; made < count; made++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            ends(SIG_DFL, SIG_UNBLOCK);
            for (;;)
                pause();
        }
    }
    if (write(report, &made, sizeof made) != sizeof made)
        return 1;
    wait_for_end();
    while (wait(&status) > 0)
        reaped += WIFSIGNALED(status);
    return reaped == made - 1 ? 0 : 1;
}

/* The word at this place of the filled memory. */
static long word(size_t at)
{
    return (long)(at * 0x9e3779b97f4a7c15UL);
}

/* The process that makes all others has this memory, whose pages are all different. */
static void fill(size_t kib)
{
    size_t words = kib * 1024 / sizeof(long);
    memory = malloc(words * sizeof(long) + 1);
    for (size_t at = 0; memory && at < words; at++)
        memory[at] = word(at);
}

/* Whether the memory is as it was filled; it is changed. */
static int is_filled(size_t kib)
{
    size_t words = kib * 1024 / sizeof(long), right = 0;
    for (size_t at = 0; memory && at < words; at++)
        right += memory[at]++ == word(at);
    return right == words;
}

/* As tern_vrfork(), with copies that stay. */
static int fork_here(int count)
{
    for (int rank = 0; rank < count; rank++)
        if ((pids[rank] = fork()) == 0)
            return rank;
    return count;
}

int main(int argc, char **argv)
{
    int report[2], made, all = 0, whole = 0, status;
    if (argc < 3) {
        fprintf(stderr, "usage: many NODES COUNT [KIB [check]]\n");
        return 2;
    }
    int stays = !strncmp(argv[1], "here:", 5), count = atoi(argv[2]);
    int there = stays ? atoi(argv[1] + 5) : tern_choose(argv[1], names, NODES_MAX);
    if (there < 1 || there > NODES_MAX || pipe(report) < 0) {
        perror("many");
        return 1;
    }
    for (int at = 0; at < there; at++)
        nodes[at] = names[at];
    fill(argc > 3 ? strtoul(argv[3], NULL, 10) : 0);
    ends(hear, SIG_BLOCK);
    setvbuf(stdout, NULL, _IOLBF, 0);
    double begin = now();
    int rank = stays ? fork_here(there) : tern_vrfork(there, nodes, pids);
    if (rank < 0) {
        perror("tern_vrfork");
        return 1;
    }
    if (rank < there) {
        int wrong = argc > 4 && !is_filled(strtoul(argv[3], NULL, 10));
        _exit(lead(count, report[1]) | wrong);
    }
    close(report[1]);
    double placed = now();
    for (int at = 0; at < there; at++)
        if (pids[at] < 0)
            printf("%s: %s\n", nodes[at], strerror(-pids[at]));
        else if (read(report[0], &made, sizeof made) == sizeof made)
            all += made;
    printf("%d processes after %.6f s, %.6f s of them for the first of each node\n", all, now() - begin, placed - begin);
    wait_for_end();
    begin = now();
    for (int at = 0; at < there; at++)
        if (pids[at] > 0 && waitpid(pids[at], &status, 0) == pids[at])
            whole += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%d nodes reaped all of theirs after %.3f s\n", whole, now() - begin);
    return 0;
}
