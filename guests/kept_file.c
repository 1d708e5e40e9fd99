// A file that its process has in common with another one: all that can be done with it by its descriptor.
// calls: pread64 pwrite64 preadv pwritev lseek mmap fstat ftruncate fallocate fsync fdatasync fchmod fchown utimensat flock fgetxattr fsetxattr flistxattr fremovexattr sendfile
// input: file
#include "guest.h"
#include <linux/fs.h>

enum { BYTES = 123456 };

static unsigned sum(const unsigned char *bytes, size_t n) {
    unsigned s = 7;
    while (n--) s = s * 31 + *bytes++;
    return s;
}

static void positions(int other) {
    char b[16] = {0};
    CHECK(lseek(0, 100, SEEK_SET) == 100 && read(0, b, 10) == 10);
    SAY("read: %x", sum((void *)b, 10));
    CHECK(pread(0, b, 10, 5000) == 10);
    SAY("pread: %x, position %ld", sum((void *)b, 10), (long)lseek(0, 0, SEEK_CUR));
    CHECK(pread(0, b, 10, 2 * BYTES) == 0);
    FAILS(EINVAL, pread(0, b, 1, -1L));
    struct iovec parts[2] = {{b, 4}, {b + 4, 6}};
    CHECK(preadv(0, parts, 2, 777) == 10);
    SAY("preadv: %x", sum((void *)b, 10));
    CHECK(RAW(preadv2, 0, parts, 2, -1L, -1L, 0) == 10);
    SAY("preadv2: %x, position %ld", sum((void *)b, 10), (long)lseek(0, 0, SEEK_CUR));
    // Another number of the same open file.
    SAY("there: %ld", (long)lseek(other, 0, SEEK_CUR));
    CHECK(lseek(other, 200, SEEK_SET) == 200);
    SAY("here: %ld", (long)lseek(0, 0, SEEK_CUR));
    CHECK(read(other, b, 10) == 10);
    SAY("read there: %x, position %ld %ld", sum((void *)b, 10), (long)lseek(0, 0, SEEK_CUR), (long)lseek(other, 0, SEEK_CUR));
    CHECK(lseek(other, -10, SEEK_END) > 0);
    CHECK(read(0, b, 16) == 10 && read(0, b, 16) == 0);
    // Opened again, it has a position of its own.
    int again = open("/proc/self/fd/0", O_RDONLY);
    CHECK(again >= 0 && lseek(0, 300, SEEK_SET) == 300 && read(again, b, 10) == 10);
    SAY("opened again: %x, position %ld %ld", sum((void *)b, 10), (long)lseek(0, 0, SEEK_CUR), (long)lseek(again, 0, SEEK_CUR));
    CHECK(read(0, b, 10) == 10 && close(again) == 0);
    SAY("and here: %x", sum((void *)b, 10));
}

static void writing(int other) {
    char b[16] = {0};
    CHECK(lseek(0, 400, SEEK_SET) == 400 && pwrite(0, "hello", 5, 300) == 5 && pread(other, b, 5, 300) == 5);
    SAY("%s, position %ld", b, (long)lseek(0, 0, SEEK_CUR));
    struct iovec parts[2] = {{"wor", 3}, {"ld", 2}};
    CHECK(pwritev(other, parts, 2, 305) == 5 && pread(0, b, 10, 300) == 10);
    CHECK(write(0, "!", 1) == 1 && lseek(other, 0, SEEK_CUR) == 401 && pread(0, b + 10, 1, 400) == 1);
    SAY("%s", b);
    CHECK(fcntl(0, F_SETFL, O_APPEND) == 0 && write(0, "end", 3) == 3);
    SAY("appended: %ld", (long)lseek(0, 0, SEEK_CUR));
    CHECK(fcntl(0, F_SETFL, 0) == 0);
}

static void size(int other) {
    struct stat s;
    CHECK(ftruncate(0, 100000) == 0 && fstat(other, &s) == 0);
    SAY("%ld bytes, regular: %d", (long)s.st_size, S_ISREG(s.st_mode));
    CHECK(ftruncate(other, BYTES) == 0 && fstat(0, &s) == 0);
    char b[4] = "xyz";
    CHECK(pread(0, b, 4, 110000) == 4);
    SAY("%ld bytes, %d%d%d%d", (long)s.st_size, b[0], b[1], b[2], b[3]);
    CHECK(fallocate(0, 0, BYTES, 4096) == 0 && fstat(0, &s) == 0);
    SAY("%ld bytes", (long)s.st_size);
    CHECK(fallocate(other, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 8192) == 0);
    CHECK(pread(0, b, 4, 9000) == 4 && ftruncate(0, BYTES) == 0);
    SAY("%d%d%d%d", b[0], b[1], b[2], b[3]);
    SAY("data at %ld", (long)lseek(other, 100, SEEK_DATA));
    // Whether allocated space that was not written is a hole, depends on what is still in memory.
    off_t hole = lseek(0, BYTES - 1, SEEK_HOLE);
    CHECK(hole == BYTES - 1 || hole == BYTES);
    FAILS(ENXIO, lseek(other, BYTES, SEEK_DATA));
    CHECK(fsync(0) == 0 && fdatasync(other) == 0 && sync_file_range(other, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);
    CHECK(posix_fadvise(0, 0, 0, POSIX_FADV_WILLNEED) == 0 && posix_fadvise(other, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
    CHECK(readahead(other, 0, 4096) == 0);
    int left;
    CHECK(lseek(0, 56, SEEK_SET) == 56 && ioctl(0, FIONREAD, &left) == 0);
    SAY("left: %d", left);
    int block;
    CHECK(ioctl(other, FIGETBSZ, &block) == 0 && block >= 512);
    struct statfs fs;
    CHECK(fstatfs(other, &fs) == 0 && fs.f_bsize > 0 && fs.f_namelen == 255);
}

static void attributes(int other) {
    struct stat s;
    CHECK(fchmod(0, 0640) == 0 && fstat(other, &s) == 0);
    SAY("mode %o", s.st_mode & 07777);
    CHECK(fchmod(other, 0600) == 0 && fchown(other, -1, -1) == 0 && fchown(0, getuid(), getgid()) == 0);
    struct timespec times[2] = {{1000, 5000}, {2000, 7000}};
    CHECK(futimens(other, times) == 0 && fstat(0, &s) == 0);
    SAY("mode %o, times %ld.%ld %ld.%ld, links %d", s.st_mode & 07777, (long)s.st_atim.tv_sec, s.st_atim.tv_nsec,
        (long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec, (int)s.st_nlink);
    times[0].tv_nsec = UTIME_OMIT, times[1].tv_nsec = UTIME_NOW;
    CHECK(futimens(0, times) == 0 && fstat(other, &s) == 0);
    SAY("times %ld, %s", (long)s.st_atim.tv_sec, s.st_mtim.tv_sec > 1000000000 ? "now" : "then");
    char value[16] = {0}, names[64] = {0};
    CHECK(fsetxattr(other, "user.a", "value", 5, 0) == 0 && fgetxattr(0, "user.a", value, 16) == 5);
    SAY("%s, %ld bytes", value, (long)fgetxattr(other, "user.a", 0, 0));
    FAILS(ERANGE, fgetxattr(other, "user.a", value, 1));
    FAILS(EEXIST, fsetxattr(0, "user.a", "v", 1, XATTR_CREATE));
    CHECK(flistxattr(0, 0, 0) == 7 && flistxattr(other, names, 64) == 7 && !strcmp(names, "user.a"));
    CHECK(fremovexattr(0, "user.a") == 0);
    FAILS(ENODATA, fgetxattr(0, "user.a", value, 16));
}

static void locks(int other) {
    CHECK(flock(0, LOCK_EX | LOCK_NB) == 0);
    int again = open("/proc/self/fd/0", O_RDWR);
    CHECK(again >= 0);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 10, .l_len = 10};
    CHECK(fcntl(other, F_SETLK, &lock) == 0);
    lock = (struct flock){.l_type = F_WRLCK, .l_len = 100};
    CHECK(fcntl(0, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
    lock = (struct flock){.l_type = F_UNLCK};
    CHECK(fcntl(0, F_SETLK, &lock) == 0 && flock(other, LOCK_UN) == 0 && close(again) == 0);
}

// As programs copy: by the kernel, and if it does not, by hand.
static void copy(void) {
    int to = open("copy", O_CREAT | O_RDWR | O_TRUNC, 0600);
    off_t from = 1000;
    char b[5000];
    CHECK(to >= 0);
    while (from < 6000) {
        ssize_t n = sendfile(to, 0, &from, 6000 - from);
        if (n > 0) continue;
        CHECK(n < 0 && errno == EINVAL && (n = pread(0, b, 6000 - from, from)) > 0 && write(to, b, n) == n);
        from += n;
    }
    CHECK(pread(to, b, 5000, 0) == 5000 && close(to) == 0 && unlink("copy") == 0);
    SAY("copied: %x", sum((void *)b, 5000));
    FAILS(EINVAL, copy_file_range(0, 0, 1, 0, 10, 0));
}

static void work(int other) {
    positions(other);
    writing(other);
    size(other);
    attributes(other);
    locks(other);
    copy();
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pid_t holder = fork();
    CHECK(holder >= 0);
    if (holder == 0) {
        for (;;) pause();
    }
    int other = fcntl(0, F_DUPFD, 50);
    CHECK(other == 50);
    work(other);
    unsigned char *map = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, other, 0);
    unsigned char *part = mmap(0, 8192, PROT_READ, MAP_PRIVATE, 0, 4096);
    CHECK(map != MAP_FAILED && part != MAP_FAILED);
    unsigned before = sum(map, 20000);
    map[4096] = 'M';
    SAY("mapped: %x, own page %c, the file's %d", before, map[4096], part[0] == 'M');
    GUEST_POINT();
    SAY("mapped: %x %x, own page %c", sum(map + 8192, 20000), sum(part, 8192), map[4096]);
    // The last page ends with the file.
    SAY("end: %x", sum(map + BYTES - 100, 100));
    CHECK(write(1, "", 0) == 0 && pwrite(0, map + 30000, 10, 0) == 10 && munmap(map, BYTES) == 0);
    // A mapping that is made anew at home counts as an access there.
    CHECK(munmap(part, 8192) == 0);
    work(other);
    CHECK(kill(holder, SIGKILL) == 0 && waitpid(holder, 0, 0) == holder);
    char b[10];
    CHECK(lseek(0, 20, SEEK_SET) == 20 && read(other, b, 10) == 10);
    SAY("alone: %x", sum((void *)b, 10));
    SUCCESS();
}
