// Extended attributes by descriptor.
// calls: fsetxattr fgetxattr flistxattr fremovexattr
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    if (fsetxattr(fd, "user.one", "value", 5, 0) == -1 && errno == EOPNOTSUPP) {
        SAY("no attributes on this file system");
        SUCCESS();
    }
    GUEST_POINT();
    char b[64] = {0};
    CHECK(fgetxattr(fd, "user.one", b, sizeof b) == 5);
    SAY("%s", b);
    CHECK(flistxattr(fd, b, sizeof b) >= 9 && fremovexattr(fd, "user.one") == 0);
    FAILS(ENODATA, fremovexattr(fd, "user.one"));
    SUCCESS();
}
