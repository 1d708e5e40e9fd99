// Descriptors that were left open by whoever started the guest.
#include "attack.h"

int main(void) {
    guard();
    int extra = 0;
    for (int fd = 3; fd < 4096; fd++) extra += fcntl(fd, F_GETFD) >= 0;
    errno = 0;
    attempt("descriptors above 2", extra == 0);
    char path[64], to[256];
    int odd = 0;
    for (int fd = 0; fd < 3; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, to, sizeof to - 1);
        to[n > 0 ? n : 0] = 0;
        odd += strstr(to, "seccomp") || strstr(to, "/dev/fuse") || strstr(to, "tern");
    }
    errno = 0;
    attempt("listeners and FUSE devices among them", odd == 0);
    OVER();
}
