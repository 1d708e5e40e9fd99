// Settings of the kernel.
#include "attack.h"

int main(void) {
    guard();
    const char *names[] = {"/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
                           "/proc/sysrq-trigger", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/file-max", "/proc/sys/net/ipv4/ip_forward",
                           "/sys/kernel/uevent_helper", "/sys/power/state", "/proc/irq/default_smp_affinity", "/sys/fs/cgroup/cgroup.procs"};
    for (int i = 0; i < 12; i++) {
        errno = 0;
        int fd = open(names[i], O_WRONLY);
        attempt(names[i], fd < 0);
    }
    OVER();
}
