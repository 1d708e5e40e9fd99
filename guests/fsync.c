// Data brought to disk.
// calls: fsync fdatasync sync_file_range syncfs sync
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    CHECK(write(fd, "data", 4) == 4);
    GUEST_POINT();
    CHECK(RAW(fsync, fd) == 0 && RAW(fdatasync, fd) == 0 && RAW(syncfs, fd) == 0);
    CHECK(RAW(sync_file_range, fd, 0, 4, SYNC_FILE_RANGE_WRITE) == 0);
    CHECK(RAW(sync) == 0);
    FAILS(EBADF, RAW(fsync, 999));
    int p[2];
    CHECK(pipe(p) == 0);
    FAILS(EINVAL, RAW(fsync, p[0]));
    FAILS(EINVAL, RAW(fsync, socket(AF_INET, SOCK_DGRAM, 0)));
    CHECK(mkfifo("fifo", 0600) == 0);
    int fifo = open("fifo", O_RDWR);
    CHECK(fifo >= 0);
    FAILS(EINVAL, RAW(fsync, fifo));
    SAY("f: %s", get_file("f"));
    SUCCESS();
}
