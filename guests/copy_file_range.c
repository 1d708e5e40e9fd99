// Copies inside the kernel.
// calls: copy_file_range
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("a", "0123456789");
    int a = open("a", O_RDONLY), b = open("b", O_CREAT | O_RDWR, 0600);
    loff_t from = 2, to = 1;
    ssize_t done = RAW(copy_file_range, a, &from, b, &to, 5, 0);
    if (done == -1) {
        CHECK(errno == EXDEV || errno == EOPNOTSUPP);
        done = pwrite(b, "23456", 5, 1), from += 5, to += 5;
    }
    GUEST_POINT();
    char c[16] = {0};
    CHECK(done == 5 && pread(b, c, 16, 1) == 5);
    SAY("%s %ld %ld", c, (long)from, (long)to);
    FAILS(EINVAL, RAW(copy_file_range, a, NULL, b, NULL, 1, 99));
    SUCCESS();
}
