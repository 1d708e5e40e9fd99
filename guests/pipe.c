// Pipes inside a process.
// calls: pipe pipe2 fcntl
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int p[2];
    CHECK(RAW(pipe, p) == 0 && write(p[1], "abc", 3) == 3);
    GUEST_POINT();
    char b[8] = {0};
    CHECK(read(p[0], b, 8) == 3);
    SAY("%s", b);
    close(p[1]);
    SAY("end: %zd", read(p[0], b, 8));
    close(p[0]);
    CHECK(RAW(pipe2, p, O_NONBLOCK | O_CLOEXEC) == 0 && fcntl(p[0], F_GETFD) == 1);
    FAILS(EAGAIN, read(p[0], b, 8));
    static char block[4096];
    long sum = 0;
    for (ssize_t n; (n = write(p[1], block, sizeof block)) > 0;) sum += n;
    SAY("holds %ld", sum);
    CHECK(errno == EAGAIN && fcntl(p[1], F_GETPIPE_SZ) == sum);
    signal(SIGPIPE, SIG_IGN);
    close(p[0]);
    FAILS(EPIPE, write(p[1], "x", 1));
    SUCCESS();
}
