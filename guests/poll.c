// Waiting for descriptors.
// calls: poll ppoll select pselect6
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int p[2];
    CHECK(pipe(p) == 0);
    struct pollfd f[3] = {{p[0], POLLIN, 0}, {p[1], POLLOUT, 0}, {999, POLLIN, 0}};
    CHECK(RAW(poll, f, 3, 0) == 2);
    SAY("%x %x %x", f[0].revents, f[1].revents, f[2].revents);
    CHECK(write(p[1], "x", 1) == 1);
    struct timespec soon = {0, 10000000};
    GUEST_POINT();
    CHECK(ppoll(f, 1, &soon, NULL) == 1);
    fd_set r;
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    struct timeval tv = {1, 0};
    CHECK(RAW(select, p[0] + 1, &r, NULL, NULL, &tv) == 1 && FD_ISSET(p[0], &r));
    CHECK(pselect(p[0] + 1, &r, NULL, NULL, &soon, NULL) == 1);
    close(p[1]);
    char c;
    CHECK(read(p[0], &c, 1) == 1 && poll(f, 1, -1) == 1);
    SAY("hang-up %x", f[0].revents);
    CHECK(poll(NULL, 0, 10) == 0);
    FAILS(EINVAL, select(-1, NULL, NULL, NULL, NULL));
    SUCCESS();
}
