// Reaching what only the hosting node reaches, or anything from there.
#include "attack.h"

int main(void) {
    guard();
    const char *address = getenv("TERN_ADDRESS"), *port = getenv("TERN_PORT");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port ? (uint16_t)atoi(port) : 1)};
    // The node listens on all its addresses. Its own loopback is nobody else's; at the other address the test sees who comes.
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int kinds[] = {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, AF_ALG, AF_BLUETOOTH, AF_CAN};
    int connected = 0;
    for (int i = 0; i < 9; i++)
        for (int type = SOCK_STREAM; type <= SOCK_RAW; type++) {
            int fd = socket(kinds[i], type, 0);
            if (fd < 0) continue;
            if (kinds[i] == AF_INET && type == SOCK_STREAM) connected += connect(fd, (void *)&to, sizeof to) == 0;
            close(fd);
        }
    errno = 0;
    attempt("connect to the node's own port", connected == 0);
    to.sin_addr.s_addr = inet_addr(address ? address : "127.0.0.1");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    connect(fd, (void *)&to, sizeof to);
    close(fd);
    HELD_OFF(socket(AF_PACKET, SOCK_RAW, 0));
    HELD_OFF(socket(AF_INET, SOCK_RAW, 1));
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "\0tern"};
    HELD_OFF(connect(pair[0], (void *)&un, sizeof un));
    HELD_OFF(sendto(pair[0], "x", 1, 0, (void *)&un, 7));
    HELD_OFF(socketpair(AF_INET, SOCK_STREAM, 0, pair));
    FILE *f = fopen("/proc/self/net/dev", "r");
    char line[256];
    int devices = 0;
    while (f && fgets(line, sizeof line, f)) devices += strchr(line, ':') && !strstr(line, "lo:");
    errno = 0;
    attempt("network devices of the node in /proc/self/net/dev", f == NULL || devices == 0 || access(getenv("TERN_MARKER"), F_OK) != 0);
    OVER();
}
