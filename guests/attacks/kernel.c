// Code in the kernel.
#include "attack.h"

int main(void) {
    guard();
    HELD_OFF(RAW(init_module, "x", 1, ""));
    HELD_OFF(RAW(finit_module, 0, "", 0));
    HELD_OFF(RAW(delete_module, "fuse", O_NONBLOCK));
    HELD_OFF(RAW(kexec_load, 0, 0, NULL, 0));
    HELD_OFF(RAW(kexec_file_load, 0, 0, 0, NULL, 0));
    char attributes[128] = {0};
    HELD_OFF(RAW(bpf, 0, attributes, 64));
    HELD_OFF(RAW(bpf, 5, attributes, 128));
    HELD_OFF(RAW(perf_event_open, attributes, -1, 0, -1, 0));
    HELD_OFF(RAW(io_uring_setup, 4, attributes));
    HELD_OFF(RAW(userfaultfd, 0));
    HELD_OFF(RAW(keyctl, 0, -3, 1));
    HELD_OFF(RAW(add_key, "user", "x", "y", 1, -3));
    HELD_OFF(RAW(syslog, 3, attributes, 128));
    OVER();
}
