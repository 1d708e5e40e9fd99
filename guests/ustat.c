// Numbers of a file system by its device.
// calls: ustat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    struct stat s;
    CHECK(stat("/", &s) == 0);
    char buffer[64];
    long done = RAW(ustat, (unsigned)s.st_dev, buffer);
    GUEST_POINT();
    CHECK(done == 0 || errno == EINVAL || errno == ENOSYS);
    SAY("answered");
    SUCCESS();
}
