// From file to file and pipe.
// calls: sendfile
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("a", "0123456789");
    int a = open("a", O_RDONLY), b = open("b", O_CREAT | O_RDWR, 0600), p[2];
    off_t from = 3;
    CHECK(RAW(sendfile, b, a, &from, 4) == 4 && from == 7);
    SAY("b: %s", get_file("b"));
    GUEST_POINT();
    CHECK(pipe(p) == 0 && RAW(sendfile, p[1], a, NULL, 100) == 10);
    char c[16] = {0};
    CHECK(read(p[0], c, 16) == 10);
    SAY("pipe: %s, position %ld", c, (long)lseek(a, 0, SEEK_CUR));
    SUCCESS();
}
