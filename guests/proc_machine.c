// What is open of /proc says the machine's state, and is home's by name.
// calls: openat read readlinkat lseek
#include "guest.h"

static const struct {
    const char *path, *begins;
} FILES[] = {{"/proc/meminfo", "MemTotal:"}, {"/proc/stat", "cpu "}, {"/proc/version", "Linux version "}};
enum { COUNT = sizeof FILES / sizeof FILES[0] };

static void look(const int fds[COUNT], const char *when) {
    for (int i = 0; i < COUNT; i++) {
        char link[32], name[64] = {0}, text[32] = {0};
        size_t length = strlen(FILES[i].begins);
        snprintf(link, sizeof link, "/proc/self/fd/%d", fds[i]);
        CHECK(readlink(link, name, sizeof name - 1) > 0);
        CHECK(lseek(fds[i], 0, SEEK_SET) == 0 && read(fds[i], text, length) == (ssize_t)length);
        SAY("%s: %s: %s", when, name, text);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++)
        CHECK((fds[i] = open(FILES[i].path, O_RDONLY)) >= 0);
    look(fds, "before");
    GUEST_POINT();
    look(fds, "after");
    SUCCESS();
}
