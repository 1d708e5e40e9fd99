/* Does with the files of its directory what the lines of standard input say, and answers each with
   one line. It reports an error as "!NUMBER". */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 4, LINE = 1 << 16 };

static int slots[SLOTS] = {-1, -1, -1, -1};
static char line[LINE], content[LINE];

static void answer_error(void) {
    printf("!%d\n", errno);
}

static void show(int fd) {
    long bytes = pread(fd, content, sizeof content, 0);
    if (bytes < 0) answer_error();
    else printf("%.*s.\n", (int)bytes, content);
}

/* Opens a file, does one thing with it, and closes it. */
static void once(const char *name, int flags, char what, long number, const char *text) {
    int fd = open(name, flags, 0644);
    if (fd < 0) {
        answer_error();
        return;
    }
    long done = 0, bytes = strlen(text);
    if (what == 'w') done = pwrite(fd, text, bytes, number) - bytes;
    if (what == 'a') done = write(fd, text, bytes) - bytes;
    if (what == 't') done = ftruncate(fd, number);
    if (what == 'y') done = pwrite(fd, text, bytes, number) != bytes || fsync(fd);
    if (done) answer_error();
    else if (what == 'r') show(fd);
    else puts("ok");
    close(fd);
}

static void on_slot(char what, int slot, long number, const char *text) {
    long bytes = strlen(text);
    if (what == 'R') show(slots[slot]);
    else if (what == 'W') {
        if (pwrite(slots[slot], text, bytes, number) == bytes) puts("ok");
        else answer_error();
    } else if (what == 'C') {
        if (close(slots[slot])) answer_error();
        else puts("ok");
        slots[slot] = -1;
    }
}

/* Adds one to the number in a file, under a lock of the whole file, many times. */
static void count(const char *name, long times) {
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    while (times-- > 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_SETLKW, &lock)) break;
        char number[24] = "";
        pread(fd, number, sizeof number - 1, 0);
        int bytes = sprintf(number, "%08ld", atol(number) + 1);
        pwrite(fd, number, bytes, 0);
        lock.l_type = F_UNLCK;
        fcntl(fd, F_SETLK, &lock);
    }
    close(fd);
    puts("ok");
}

/* Appends numbered lines, each by a write of its own. */
static void append(const char *name, const char *who, long times) {
    int fd = open(name, O_WRONLY | O_APPEND | O_CREAT, 0644);
    for (long n = 0; n < times; n++) {
        int bytes = sprintf(content, "%s %ld\n", who, n);
        if (write(fd, content, bytes) != bytes) break;
    }
    close(fd);
    puts("ok");
}

int main(void) {
    while (fgets(line, sizeof line, stdin)) {
        char what = line[0], *name = strtok(line + 1, " \n"), *second = strtok(0, " \n"), *third = strtok(0, " \n");
        long number = second ? atol(second) : 0;
        struct stat stat;
        switch (what) {
        case 'r': once(name, O_RDONLY, what, 0, ""); break;
        case 'w': case 'y': once(name, O_WRONLY | O_CREAT, what, number, third ? third : ""); break;
        case 'a': once(name, O_WRONLY | O_CREAT | O_APPEND, what, 0, second); break;
        case 't': once(name, O_WRONLY | O_CREAT, what, number, ""); break;
        case 'o': once(name, O_WRONLY | O_CREAT | O_TRUNC, 'a', 0, second); break;
        case 's': if (lstat(name, &stat)) answer_error(); else printf("%ld\n", (long)stat.st_size); break;
        case 'm': if (rename(name, second)) answer_error(); else puts("ok"); break;
        case 'u': if (unlink(name)) answer_error(); else puts("ok"); break;
        case 'x': { int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644); if (fd < 0) answer_error(); else puts("ok"); if (fd >= 0) close(fd); break; }
        case 'O': slots[number] = open(name, O_RDWR | O_CREAT, 0644); puts(slots[number] < 0 ? "!" : "ok"); break;
        case 'R': case 'C': on_slot(what, atoi(name), 0, ""); break;
        case 'W': on_slot(what, atoi(name), number, third); break;
        case 'L': count(name, number); break;
        case 'A': append(name, second, atol(third)); break;
        default: puts("?");
        }
        fflush(stdout);
    }
    return 0;
}
