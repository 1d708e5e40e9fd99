// Mounting over, moving and taking away what the room sees.
#include "attack.h"

int main(void) {
    guard();
    HELD_OFF(mount("none", "/tmp", "tmpfs", 0, ""));
    HELD_OFF(mount("/", "/mnt", "none", MS_BIND, ""));
    HELD_OFF(mount("proc", "/mnt", "proc", 0, ""));
    HELD_OFF(mount("none", "/", "none", MS_REMOUNT | MS_BIND, ""));
    HELD_OFF(mount("cgroup", "/mnt", "cgroup2", 0, ""));
    HELD_OFF(umount2("/", MNT_DETACH));
    HELD_OFF(umount2("/proc", MNT_DETACH));
    HELD_OFF(RAW(open_tree, AT_FDCWD, "/", 1));
    HELD_OFF(RAW(fsopen, "tmpfs", 0));
    HELD_OFF(RAW(move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/mnt", 0));
    HELD_OFF(RAW(mount_setattr, AT_FDCWD, "/", 0, NULL, 0));
    OVER();
}
