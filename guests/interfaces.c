// Interfaces, as a socket tells them: those of home.
// calls: ioctl
#include "socket.h"
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>

/// How many interfaces are called so and have this address; at most as many are asked for as the list holds.
static int called(int fd, const char *name, uint32_t address, int most) {
    struct ifreq list[64];
    struct ifconf all = {.ifc_len = most * sizeof *list, .ifc_req = list};
    CHECK(ioctl(fd, SIOCGIFCONF, &all) == 0 && all.ifc_len <= (int)(most * sizeof *list));
    int found = 0;
    for (unsigned i = 0; i < all.ifc_len / sizeof *list; i++)
        found += !strcmp(list[i].ifr_name, name) && ((struct sockaddr_in *)&list[i].ifr_addr)->sin_addr.s_addr == address;
    return found;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    uint32_t here = htonl(INADDR_LOOPBACK);
    SAY("lo: %d", called(fd, "lo", here, 64));
    struct ifconf none = {.ifc_len = 0, .ifc_buf = NULL};
    CHECK(ioctl(fd, SIOCGIFCONF, &none) == 0 && none.ifc_len >= (int)sizeof(struct ifreq));
    FAILS(EFAULT, ioctl(fd, SIOCGIFCONF, NULL));
    GUEST_POINT();
    SAY("none: %d, first: %d", called(fd, "lo", here, 0), called(fd, "lo", here, 1));
    // A request that holds an address again is made at home.
    struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
    struct ifreq request = {.ifr_name = "lo", .ifr_data = (char *)&link};
    CHECK(ioctl(fd, SIOCETHTOOL, &request) == 0);
    SAY("link: %u", link.data);
    FAILS(ENOTTY, ioctl(fd, 0x4b33, &link));
    SUCCESS();
}
