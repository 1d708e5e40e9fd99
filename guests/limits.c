// Limits on descriptors and file sizes.
// calls: getrlimit setrlimit prlimit64
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct rlimit l, m;
    CHECK(RAW(getrlimit, RLIMIT_NOFILE, &l) == 0 && l.rlim_cur >= 64);
    l.rlim_cur = 20;
    CHECK(RAW(setrlimit, RLIMIT_NOFILE, &l) == 0);
    int fd, last = 0;
    while ((fd = open("f", O_CREAT | O_RDONLY, 0600)) >= 0) last = fd;
    CHECK(errno == EMFILE);
    SAY("last descriptor %d", last);
    GUEST_POINT();
    CHECK(RAW(prlimit64, 0, RLIMIT_NOFILE, NULL, &m) == 0 && m.rlim_cur == 20);
    l.rlim_cur = 30;
    CHECK(RAW(prlimit64, getpid(), RLIMIT_NOFILE, &l, &m) == 0 && m.rlim_cur == 20);
    CHECK(open("f", O_RDONLY) == 20);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){5, RLIM_INFINITY}) == 0 || setrlimit(RLIMIT_FSIZE, &(struct rlimit){5, 5}) == 0);
    fd = open("g", O_CREAT | O_WRONLY, 0600);
    ssize_t n = write(fd, "0123456789", 10);
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0 || 1);
    dprintf(1, "%zd bytes fit\n", n);
    FAILS(EINVAL, RAW(getrlimit, 99, &l));
    SUCCESS();
}
