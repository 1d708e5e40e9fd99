// The working directory.
// calls: chdir fchdir getcwd
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char first[PATH_MAX], then[PATH_MAX];
    CHECK(RAW(getcwd, first, sizeof first) > 0);
    CHECK(mkdir("d", 0700) == 0 && RAW(chdir, "d") == 0);
    GUEST_POINT();
    CHECK(RAW(getcwd, then, sizeof then) > 0 && !strncmp(first, then, strlen(first)));
    SAY("below the first: %s", then + strlen(first));
    put_file("f", "in d");
    int fd = open("..", O_RDONLY | O_DIRECTORY);
    CHECK(RAW(fchdir, fd) == 0);
    SAY("%s", get_file("d/f"));
    FAILS(ENOENT, RAW(chdir, "none"));
    FAILS(ENOTDIR, RAW(chdir, "d/f"));
    FAILS(ERANGE, RAW(getcwd, then, 2));
    CHECK(mkdir("gone", 0700) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0);
    FAILS(ENOENT, RAW(getcwd, then, sizeof then));
    SUCCESS();
}
