// What the kernel says of the home's network.
// calls: socket bind getsockname sendto recvmsg
#include "socket.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct sockaddr_nl at = {.nl_family = AF_NETLINK};
    socklen_t bytes = sizeof at;
    CHECK(bind(s, (void *)&at, sizeof at) == 0 && getsockname(s, (void *)&at, &bytes) == 0 && at.nl_pid == (unsigned)getpid());
    struct {
        struct nlmsghdr head;
        struct rtgenmsg body;
    } request = {{sizeof request, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 7, 0}, {AF_UNSPEC}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    CHECK(sendto(s, &request, sizeof request, 0, (void *)&kernel, sizeof kernel) == sizeof request);
    GUEST_POINT();
    static char answer[32768];
    for (int done = 0; !done;) {
        struct iovec v = {answer, sizeof answer};
        struct msghdr m = {.msg_name = &kernel, .msg_namelen = sizeof kernel, .msg_iov = &v, .msg_iovlen = 1};
        int n = recvmsg(s, &m, 0);
        CHECK(n > 0 && kernel.nl_pid == 0);
        for (struct nlmsghdr *h = (void *)answer; NLMSG_OK(h, (unsigned)n); h = NLMSG_NEXT(h, n)) {
            CHECK(h->nlmsg_seq == 7);
            if (h->nlmsg_type == NLMSG_DONE)
                done = 1;
            else if (((struct ifinfomsg *)NLMSG_DATA(h))->ifi_index == 1)
                SAY("loopback is %s", ((struct ifinfomsg *)NLMSG_DATA(h))->ifi_flags & IFF_UP ? "up" : "down");
        }
    }
    CHECK(if_nametoindex("lo") == 1);
    SUCCESS();
}
