// Has all descriptors open but four (the soft limit of RLIMIT_NOFILE is 64, the hard one its argument), and writes a line to standard output again and again: how many of its files show what they should, and how many
// descriptors it can still open.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT = 64, OPEN = 60 };

int main(int count, char **words) {
    if (count != 2) return 3;
    struct rlimit limit = {LIMIT, strtoul(words[1], 0, 10)};
    close_range(3, ~0u, 0);
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 1;
    for (int fd = 3; fd < OPEN; fd++) {
        char name[32];
        snprintf(name, sizeof name, "file.%d", fd);
        if (open(name, O_RDWR | O_CREAT | O_TRUNC, 0600) != fd || write(fd, &fd, sizeof fd) != sizeof fd) return 2;
    }
    for (;;) {
        int right = 0, more[LIMIT], count = 0;
        for (int fd = 3, read = 0; fd < OPEN; fd++) right += pread(fd, &read, sizeof read, 0) == sizeof read && read == fd;
        while (count < LIMIT && (more[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
        int why = errno;
        for (int n = 0; n < count; n++) close(more[n]);
        getrlimit(RLIMIT_NOFILE, &limit);
        dprintf(1, "%d right, %d more, %s, %lu %lu\n", right, count, why == EMFILE ? "full" : "?", limit.rlim_cur, limit.rlim_max);
        usleep(20000);
    }
}
