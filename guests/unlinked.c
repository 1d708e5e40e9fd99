// Open files outlive their names.
// calls: openat unlink
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "still here");
    int fd = open("f", O_RDWR);
    CHECK(unlink("f") == 0);
    put_file("f", "another");
    GUEST_POINT();
    char b[32] = {0};
    struct stat s;
    CHECK(read(fd, b, sizeof b) == 10 && fstat(fd, &s) == 0);
    SAY("%s, links %ld", b, (long)s.st_nlink);
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, "new", 3, 0) == 3);
    SAY("f: %s", get_file("f"));
    CHECK(mkdir("d", 0700) == 0);
    int d = open("d", O_RDONLY);
    CHECK(rmdir("d") == 0);
    FAILS(ENOENT, openat(d, "x", O_CREAT | O_WRONLY, 0600));
    SUCCESS();
}
