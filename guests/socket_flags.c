// Peeking, waiting for all, out-of-band data, and ioctls of sockets.
// calls: recvfrom sendto ioctl fcntl
#include "socket.h"
#include <linux/sockios.h>
#include <net/if.h>

static volatile int urgent;

static void handler(int signal) { urgent = signal == SIGURG; }

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a, b, n = 0, on = 1;
    char text[16] = {0};
    tcp_pair(&a, &b);
    CHECK(send(a, "abcdef", 6, 0) == 6 && ready(b, POLLIN, 3000) == POLLIN);
    CHECK(recv(b, text, 3, MSG_PEEK) == 3 && ioctl(b, FIONREAD, &n) == 0);
    SAY("peeked %s of %d", text, n);
    CHECK(recv(b, text, 6, MSG_WAITALL) == 6);
    FAILS(EAGAIN, recv(b, text, 1, MSG_DONTWAIT));
    CHECK(ioctl(b, FIONBIO, &on) == 0 && flags(b) == (O_RDWR | O_NONBLOCK));
    FAILS(EAGAIN, read(b, text, 1));
    on = 0;
    CHECK(ioctl(b, FIONBIO, &on) == 0);
    struct sigaction act = {.sa_handler = handler};
    CHECK(sigaction(SIGURG, &act, NULL) == 0 && fcntl(b, F_SETOWN, getpid()) == 0 && fcntl(b, F_GETOWN) == getpid());
    GUEST_POINT();
    CHECK(send(a, "12", 2, 0) == 2 && send(a, "u", 1, MSG_OOB) == 1);
    while (!urgent)
        usleep(1000);
    SAY("urgent:%s", bits(ready(b, POLLPRI, 3000)));
    CHECK(recv(b, text, 1, MSG_OOB) == 1 && text[0] == 'u');
    CHECK(recv(b, text, 16, 0) == 2 && ioctl(b, SIOCATMARK, &n) == 0);
    SAY("at the mark: %d", n);
    struct ifreq lo = {.ifr_name = "lo"};
    CHECK(ioctl(a, SIOCGIFFLAGS, &lo) == 0 && lo.ifr_flags & IFF_LOOPBACK && ioctl(a, SIOCGIFINDEX, &lo) == 0 && lo.ifr_ifindex == 1);
    FAILS(ESPIPE, lseek(a, 0, SEEK_CUR));
    FAILS(ESPIPE, pread(a, text, 1, 0));
    SUCCESS();
}
