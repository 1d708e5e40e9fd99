// Many descriptors closed at once.
// calls: close_range
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int fd = 30; fd < 40; fd++) CHECK(dup2(1, fd) == fd);
    CHECK(RAW(close_range, 33, 35, 0) == 0 && RAW(close_range, 36, 37, 4) == 0);
    GUEST_POINT();
    for (int fd = 30; fd < 40; fd++) printf("%d ", fcntl(fd, F_GETFD));
    puts("");
    FAILS(EINVAL, RAW(close_range, 5, 4, 0));
    SUCCESS();
}
