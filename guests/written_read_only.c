// A file that is open for writing, and that its owner may not open so any more.
// calls: openat write fstat fchmod
#include "guest.h"
#include <sys/stat.h>

static void put(int fd, const char *text) {
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    // Root may open whatever it likes.
    CHECK(chmod(".", 0777) == 0);
    CHECK(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
    umask(0);
    int made = open("made", O_WRONLY | O_CREAT | O_EXCL, 0444), changed = open("changed", O_RDWR | O_CREAT, 0644);
    CHECK(made >= 0 && changed >= 0 && fchmod(changed, 0400) == 0);
    put(made, "before, "), put(changed, "before, ");
    GUEST_POINT();
    put(made, "after"), put(changed, "after");
    CHECK(open("made", O_WRONLY) < 0 && errno == EACCES);
    struct stat state;
    char text[32] = {0};
    CHECK(fstat(made, &state) == 0 && pread(changed, text, sizeof text, 0) == 13);
    SAY("made: %03o, %d bytes; changed: %s", state.st_mode & 0777, (int)state.st_size, text);
    SUCCESS();
}
