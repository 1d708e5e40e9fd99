// A path that changes between the check and the use: calls that are forwarded must not be fooled into another file.
#include "attack.h"

static char name[256] = "l";
static volatile int stop;

static void *flip(void *arg) {
    const char *marker = getenv("TERN_MARKER");
    while (!stop) {
        strcpy(name, marker ? marker : "/none");
        strcpy(name, "l");
    }
    return arg;
}

int main(void) {
    guard();
    CHECK(symlink("/proc/self/status", "l") == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, flip, NULL) == 0);
    int seen = 0;
    for (int i = 0; i < 3000; i++) {
        int fd = open(name, O_RDONLY);
        if (fd < 0) continue;
        char b[16] = {0};
        seen += read(fd, b, 15) > 0 && !strncmp(b, "marker", 6);
        close(fd);
    }
    stop = 1;
    CHECK(pthread_join(t, NULL) == 0);
    errno = 0;
    attempt("a name that flips between a harmless file and the marker", seen == 0);
    OVER();
}
