// Memory that the kernel may drop, and that children do not get (MAP_DROPPABLE, Linux 6.11): it stays such.
// calls: mmap
#include "guest.h"
#include <sys/wait.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

enum { BYTES = 8 * 4096 };

// Whether the area at `m` is marked so.
static int is_marked(char *m) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    int inside = 0, found = 0;
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) inside = start <= (unsigned long)m && (unsigned long)m < end;
        if (inside && strncmp(line, "VmFlags:", 8) == 0) found = strstr(line, " dp") != NULL;
    }
    fclose(f);
    return found;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) {
        SAY("no such memory here");
        SUCCESS();
    }
    memset(m, 7, BYTES);
    GUEST_POINT();
    SAY("marked %d", is_marked(m));
    for (int at = 0; at < BYTES; at++) CHECK(m[at] == 7 || m[at] == 0);
    memset(m, 9, BYTES);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int sum = 0;
        for (int at = 0; at < BYTES; at++) sum += m[at];
        _exit(sum == 0 ? 5 : 6);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("a child sees zeros: %d", WEXITSTATUS(status) == 5);
    SUCCESS();
}
