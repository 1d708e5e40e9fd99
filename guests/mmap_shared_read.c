// A shared mapping that is only read sees what is written.
// calls: mmap msync
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "before");
    int fd = open("f", O_RDONLY), w = open("f", O_WRONLY);
    char *m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(m != MAP_FAILED);
    SAY("%.6s", m);
    GUEST_POINT();
    CHECK(pwrite(w, "after!", 6, 0) == 6);
    SAY("%.6s", m);
    CHECK(RAW(msync, m, 4096, MS_SYNC) == 0);
    FAILS(EACCES, mprotect(m, 4096, PROT_READ | PROT_WRITE));
    SUCCESS();
}
