// Filters of sockets, and options of packet sockets.
// calls: setsockopt getsockopt
#include "guest.h"
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>

static const char *did(long result) {
    return result < 0 ? strerrorname_np(errno) : "done";
}

static int bound(struct sockaddr_in *to, int reuse) {
    socklen_t length = sizeof *to;
    int s = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    CHECK(s >= 0 && (!reuse || setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0));
    CHECK(bind(s, (struct sockaddr *)to, length) == 0 && getsockname(s, (struct sockaddr *)to, &length) == 0);
    return s;
}

static int comes(int s, const struct sockaddr_in *to, char first) {
    char byte = 0;
    int from = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(from >= 0 && sendto(from, &first, 1, 0, (const struct sockaddr *)to, sizeof *to) == 1 && close(from) == 0);
    return recv(s, &byte, 1, MSG_DONTWAIT) == 1;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, both = to;
    int s = bound(&to, 0), first = bound(&both, 1), second = bound(&both, 1), one = 1;
    // Datagrams that begin with x (behind a UDP header).
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 8), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'x', 0, 1), BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {4, code}, wrong = {0, code}, far = {4, (void *)8};
    SAY("before: %d", comes(s, &to, 'y'));
    CHECK(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
    GUEST_POINT();
    SAY("moved: x %d, y %d", comes(s, &to, 'x'), comes(s, &to, 'y'));
    struct sock_filter got[8] = {{9, 9, 9, 9}};
    socklen_t many = 0;
    CHECK(getsockopt(s, SOL_SOCKET, SO_GET_FILTER, got, &many) == 0);
    SAY("asked: %u", many);
    many = 3;
    SAY("too few: %s", did(getsockopt(s, SOL_SOCKET, SO_GET_FILTER, got, &many)));
    many = 8;
    got[5].k = 77;
    CHECK(getsockopt(s, SOL_SOCKET, SO_GET_FILTER, got, &many) == 0);
    SAY("got: %u, the same %d, behind it %u", many, memcmp(got, code, sizeof code) == 0, got[5].k);
    code[1].k = 'y';
    SAY("another: %s", did(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)));
    SAY("then: x %d, y %d", comes(s, &to, 'x'), comes(s, &to, 'y'));
    SAY("none: %s, short: %s", did(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &wrong, sizeof wrong)), did(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, 8)));
    SAY("nowhere: %s", did(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &far, sizeof far)));
    wrong.len = 5000;
    SAY("many: %s", did(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &wrong, sizeof wrong)));
    struct sock_filter loop[] = {BPF_STMT(BPF_JMP | BPF_JA, 5)};
    SAY("senseless: %s", did(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &(struct sock_fprog){1, loop}, sizeof program)));
    SAY("detached: %s", did(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &one, sizeof one)));
    SAY("again: %s", did(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &one, sizeof one)));
    SAY("locked: %s", did(setsockopt(s, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one)));
    SAY("attached then: %s", did(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)));
    SAY("a program of the kernel's: %s", did(setsockopt(second, SOL_SOCKET, SO_ATTACH_BPF, &(int){-1}, sizeof(int))));
    // The second of two that share a port.
    struct sock_filter choose[] = {BPF_STMT(BPF_RET | BPF_K, 1)};
    SAY("chosen: %s", did(setsockopt(first, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &(struct sock_fprog){1, choose}, sizeof program)));
    SAY("the second: %d", comes(second, &both, 'x'));
    // One of packets.
    int packets = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
    if (packets < 0) {
        CHECK(errno == EPERM && geteuid() != 0);
        SUCCESS();
    }
    struct packet_mreq all = {.mr_ifindex = (int)if_nametoindex("lo"), .mr_type = PACKET_MR_ALLMULTI};
    struct sockaddr_ll lo = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = all.mr_ifindex};
    CHECK(all.mr_ifindex > 0 && bind(packets, (struct sockaddr *)&lo, sizeof lo) == 0);
    SAY("packets: filter %s", did(setsockopt(packets, SOL_SOCKET, SO_ATTACH_FILTER, &(struct sock_fprog){1, choose}, sizeof program)));
    SAY("packets: all: %s", did(setsockopt(packets, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all)));
    SAY("packets: no more: %s", did(setsockopt(packets, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &all, sizeof all)));
    SAY("packets: again: %s", did(setsockopt(packets, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &all, sizeof all)));
    SAY("packets: more of each: %s", did(setsockopt(packets, SOL_PACKET, PACKET_AUXDATA, &one, sizeof one)));
    int value = 0;
    socklen_t length = sizeof value;
    CHECK(getsockopt(packets, SOL_PACKET, PACKET_AUXDATA, &value, &length) == 0);
    SAY("packets: asked: %d", value);
    struct tpacket_stats counted;
    length = sizeof counted;
    CHECK(setsockopt(packets, SOL_PACKET, PACKET_VERSION, &(int){TPACKET_V2}, sizeof(int)) == 0);
    CHECK(getsockopt(packets, SOL_PACKET, PACKET_STATISTICS, &counted, &length) == 0);
    SAY("packets: counted: %u", length);
    // A ring is memory that is shared with home's kernel: it is made there.
    struct tpacket_req ring = {4096, 4, 2048, 8};
    SAY("packets: ring: %s", did(setsockopt(packets, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring)));
    char *mapped = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, packets, 0);
    SAY("packets: mapped: %d", mapped != MAP_FAILED);
    SUCCESS();
}
