// Files cut and extended.
// calls: truncate ftruncate
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "0123456789");
    CHECK(RAW(truncate, "f", 4) == 0);
    SAY("'%s'", get_file("f"));
    int fd = open("f", O_RDWR);
    CHECK(RAW(ftruncate, fd, 8) == 0);
    GUEST_POINT();
    char b[16];
    CHECK(read(fd, b, 16) == 8 && !memcmp(b, "0123\0\0\0\0", 8));
    FAILS(EINVAL, RAW(ftruncate, fd, -1L));
    FAILS(EISDIR, RAW(truncate, ".", 0));
    FAILS(ENOENT, RAW(truncate, "none", 0));
    close(fd);
    fd = open("f", O_RDONLY);
    FAILS(EINVAL, RAW(ftruncate, fd, 0));
    SUCCESS();
}
