// The old ways out of a root directory.
#include "attack.h"

int main(void) {
    guard();
    CHECK(mkdir("jail", 0700) == 0);
    int up = open("/", O_RDONLY | O_DIRECTORY);
    HELD_OFF(chroot("jail"));
    HELD_OFF(RAW(pivot_root, ".", "jail"));
    CHECK(fchdir(up) == 0);
    for (int i = 0; i < 100; i++)
        if (chdir("..") != 0) break;
    errno = 0;
    attempt("up a hundred times from a descriptor of the root", !marker_below("."));
    OVER();
}
