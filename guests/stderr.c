// The error output.
// calls: write
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    CHECK(write(2, "to the error output\n", 20) == 20);
    GUEST_POINT();
    fprintf(stderr, "%s\n", "and more");
    int fd = dup(2);
    close(2);
    FAILS(EBADF, write(2, "x", 1));
    CHECK(write(fd, "through a duplicate\n", 20) == 20);
    SUCCESS();
}
