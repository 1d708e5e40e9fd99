// Extended attributes by path.
// calls: setxattr getxattr listxattr removexattr lsetxattr lgetxattr llistxattr lremovexattr
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "x");
    if (setxattr("f", "user.one", "1", 1, 0) == -1 && errno == EOPNOTSUPP) {
        SAY("no attributes on this file system");
        SUCCESS();
    }
    CHECK(setxattr("f", "user.two", "22", 2, XATTR_CREATE) == 0);
    FAILS(EEXIST, setxattr("f", "user.two", "22", 2, XATTR_CREATE));
    FAILS(ENODATA, setxattr("f", "user.three", "3", 1, XATTR_REPLACE));
    GUEST_POINT();
    char b[256] = {0};
    SAY("sizes %zd %zd", getxattr("f", "user.one", NULL, 0), lgetxattr("f", "user.two", b, sizeof b));
    FAILS(ERANGE, getxattr("f", "user.two", b, 1));
    ssize_t n = listxattr("f", b, sizeof b), users = 0;
    for (ssize_t at = 0; at < n; at += strlen(b + at) + 1) users += !strncmp(b + at, "user.", 5);
    SAY("%zd names, %s", users, llistxattr("f", NULL, 0) == n ? "twice the same" : "not the same");
    CHECK(removexattr("f", "user.one") == 0 && lremovexattr("f", "user.two") == 0);
    FAILS(ENODATA, getxattr("f", "user.one", b, sizeof b));
    CHECK(lsetxattr("f", "user.four", "4", 1, 0) == 0);
    CHECK(symlink("f", "l") == 0);
    FAILS(EPERM, lsetxattr("l", "user.x", "1", 1, 0));
    SUCCESS();
}
