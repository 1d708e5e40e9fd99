// Devices of the node.
#include "attack.h"

int main(void) {
    guard();
    const char *names[] = {"/dev/mem", "/dev/kmsg", "/dev/port", "/dev/fuse", "/dev/sda", "/dev/vda", "/dev/loop-control", "/dev/net/tun",
                           "/dev/userfaultfd", "/dev/kvm", "/dev/mapper/control", "/dev/cuse"};
    for (int i = 0; i < 12; i++) {
        errno = 0;
        int fd = open(names[i], O_RDWR);
        attempt(names[i], fd < 0);
    }
    HELD_OFF(mknod("disk", S_IFBLK | 0600, makedev(8, 0)));
    HELD_OFF(mknod("disk", S_IFBLK | 0600, makedev(254, 0)));
    HELD_OFF(mknod("mem", S_IFCHR | 0600, makedev(1, 1)));
    HELD_OFF(RAW(iopl, 3));
    HELD_OFF(RAW(ioperm, 0x70, 1, 1));
    OVER();
}
