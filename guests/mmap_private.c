// A private mapping of a file.
// calls: mmap
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "file content");
    int fd = open("f", O_RDWR);
    char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(m != MAP_FAILED && !memcmp(m, "file content", 12) && m[100] == 0);
    memcpy(m, "own ", 4);
    GUEST_POINT();
    SAY("mapping: %s", m);
    SAY("file: %s", get_file("f"));
    close(fd);
    CHECK(unlink("f") == 0);
    SAY("after unlink: %s", m);
    SUCCESS();
}
