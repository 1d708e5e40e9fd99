// Pages through pipes.
// calls: splice tee vmsplice
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("a", "0123456789");
    int a = open("a", O_RDONLY), b = open("b", O_CREAT | O_RDWR, 0600), p[2], q[2];
    CHECK(pipe(p) == 0 && pipe(q) == 0);
    loff_t from = 1;
    CHECK(RAW(splice, a, &from, p[1], NULL, 6, 0) == 6 && from == 7);
    CHECK(RAW(tee, p[0], q[1], 100, 0) == 6);
    GUEST_POINT();
    CHECK(RAW(splice, p[0], NULL, b, NULL, 100, 0) == 6);
    SAY("b: %s", get_file("b"));
    struct iovec v = {"memory", 6};
    CHECK(RAW(vmsplice, q[1], &v, 1, 0) == 6);
    char c[16] = {0};
    CHECK(read(q[0], c, 16) == 12);
    SAY("pipe: %s", c);
    SUCCESS();
}
