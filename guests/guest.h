// What all guests share. A guest is a small program that makes certain system calls, says what it found, and ends with EXIT-SUCCESS.
//
// Its output is the same wherever and whenever it runs: no numbers of processes, times, addresses. It begins in an empty directory of its own.
// The line `// calls: ...` names the rows of the system-call table that it is about.
#ifndef GUEST_H
#define GUEST_H
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

// Where a guest may be moved to another machine: nothing may be different after it. The harness is told by a file (`at-PID` in the directory GUEST_MOVES), and
// says by another (`go-PID`) that it has moved the guest, or could not.
#define GUEST_POINT() guest_point()

// The call itself, not what libc makes of it.
#define RAW(call, ...) syscall(SYS_##call, ##__VA_ARGS__)

#define CHECK(holds) ((holds) ? (void)0 : failed(__FILE_NAME__, __LINE__, #holds))

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

_Noreturn static inline void failed(const char *file, int line, const char *what) {
    printf("FAILED %s:%d: %s (%s)\n", file, line, what, strerrorname_np(errno));
    fflush(stdout);
    _exit(1);
}

// The call must fail with this error, which is said.
#define FAILS(error, call)                                                             \
    do {                                                                               \
        errno = 0;                                                                     \
        CHECK((call) == -1 && errno == (error));                                       \
        printf("%s: %s\n", #call, #error);                                             \
    } while (0)

#define SAY(...) (printf(__VA_ARGS__), putchar('\n'))

#define SUCCESS()                \
    do {                         \
        puts("EXIT-SUCCESS");    \
        CHECK(!fflush(stdout));  \
        return 0;                \
    } while (0)

__attribute__((noinline, unused)) static void guest_point(void) {
    const char *directory = getenv("GUEST_MOVES");
    if (!directory) return;
    int error = errno;
    char at[512], go[512];
    snprintf(at, sizeof at, "%s/at-%d", directory, (int)syscall(SYS_getpid));
    snprintf(go, sizeof go, "%s/go-%d", directory, (int)syscall(SYS_getpid));
    unlink(go);
    // A link is there at once: a file might still be open when the guest is taken away.
    if (symlink("here", at) == 0) {
        struct timespec moment = {0, 1000000};
        while (access(go, F_OK)) nanosleep(&moment, &moment), moment.tv_nsec = 1000000;
    }
    errno = error;
}

// Asks whoever sits at the terminal to type this; control characters are written as ^C, the end of a line as $. Only for guests with `// terminal: yes`.
static inline void please_type(const char *keys) {
    printf("TYPE:%s\n", keys);
    CHECK(!fflush(stdout));
}

// Makes a file with this content.
static inline void put_file(const char *path, const char *content) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    CHECK(fd >= 0);
    CHECK(write(fd, content, strlen(content)) == (ssize_t)strlen(content));
    CHECK(close(fd) == 0);
}

// The file's content, in one static buffer.
static inline const char *get_file(const char *path) {
    static char content[65536];
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    ssize_t got = read(fd, content, sizeof content - 1);
    CHECK(got >= 0 && close(fd) == 0);
    content[got] = 0;
    return content;
}

static inline int64_t now_us(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}
#endif
