// Symbolic links.
// calls: symlink symlinkat readlink readlinkat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "content");
    CHECK(RAW(symlink, "f", "a") == 0 && RAW(symlinkat, "a", AT_FDCWD, "b") == 0 && symlink("none", "dangling") == 0);
    char to[32] = {0};
    CHECK(RAW(readlink, "b", to, sizeof to) == 1 && to[0] == 'a');
    CHECK(RAW(readlinkat, AT_FDCWD, "dangling", to, 3) == 3 && !memcmp(to, "non", 3));
    GUEST_POINT();
    SAY("through two links: %s", get_file("b"));
    FAILS(ENOENT, open("dangling", O_RDONLY));
    FAILS(EINVAL, RAW(readlink, "f", to, sizeof to));
    CHECK(symlink("loop2", "loop1") == 0 && symlink("loop1", "loop2") == 0);
    FAILS(ELOOP, open("loop1", O_RDONLY));
    FAILS(ELOOP, open("a", O_RDONLY | O_NOFOLLOW));
    SUCCESS();
}
