// Pages of a mapping in another order.
// calls: remap_file_pages
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = memfd_create("pages", 0);
    CHECK(fd >= 0 && ftruncate(fd, 4 * 4096) == 0);
    for (int i = 0; i < 4; i++) CHECK(pwrite(fd, (char[]){(char)('a' + i)}, 1, i * 4096) == 1);
    char *m = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(m != MAP_FAILED && RAW(remap_file_pages, m, 4096, 0, 3, 0) == 0);
    GUEST_POINT();
    SAY("%c%c%c%c", m[0], m[4096], m[2 * 4096], m[3 * 4096]);
    SUCCESS();
}
