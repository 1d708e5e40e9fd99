/* Dumps itself, becomes what was dumped, dumps another process; with threads of its own. */
#include <bproc.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t held;
static int begun[2];

static void *hold(void *answer)
{
    pthread_mutex_lock(&held);
    if (write(begun[1], "", 1) != 1)
        return NULL;
    pause();
    return answer;
}

static int failed(const char *call)
{
    int number = errno, childless = waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD;
    const char *name = number == ENOEXEC      ? "ENOEXEC"
                       : number == EBADF      ? "EBADF"
                       : number == EINVAL     ? "EINVAL"
                       : number == ESRCH      ? "ESRCH"
                       : number == ENOENT     ? "ENOENT"
                       : number == EOPNOTSUPP ? "EOPNOTSUPP"
                                              : strerror(number);
    printf("%s: %s%s\n", call, name, childless ? "" : ", and a child");
    return 1;
}

/* Both go on behind the call: the caller, and whatever is made from the file. */
static int dump_oneself(const char *file)
{
    pthread_t thread;
    char byte;
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), before = getpid();
    signal(SIGCHLD, SIG_IGN);
    if (pipe(begun) || pthread_create(&thread, NULL, hold, NULL) || read(begun[0], &byte, 1) != 1)
        return failed("pthread_create");
    int side = tern_dump(fd, 0);
    if (side < 0)
        return failed("tern_dump");
    printf("%s, %s PID, mutex %s\n", side ? "original" : "copy", getpid() == before ? "same" : "another",
           pthread_mutex_trylock(&held) == EBUSY ? "held" : "free");
    fflush(stdout);
    return side ? 5 : 6;
}

static int undump(const char *file)
{
    tern_undump(open(file, O_RDONLY | O_CLOEXEC), 0);
    return failed("tern_undump");
}

static int dump_another(const char *file, int pid)
{
    int done = tern_dump_pid(pid, open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600), 0);
    return done < 0 ? failed("tern_dump_pid") : done;
}

int main(int count, char **words)
{
    const char *what = count > 2 ? words[1] : "";
    if (!strcmp(what, "oneself"))
        return dump_oneself(words[2]);
    if (!strcmp(what, "undump"))
        return undump(words[2]);
    if (!strcmp(what, "another"))
        return dump_another(words[2], atoi(words[3]));
    if (!strcmp(what, "old")) {
        int fd = open(words[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        return bproc_dump(fd, BPROC_DUMP_ALL) > 0 ? bproc_undump(open(words[2], O_RDONLY)) : 7;
    }
    return 2;
}
