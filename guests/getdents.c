// Reading a directory of 300 names, each once.
// calls: getdents getdents64
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char name[32], seen[300] = {0};
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "file-%03d", i);
        put_file(name, "");
    }
    int fd = open(".", O_RDONLY | O_DIRECTORY), count = 0, dots = 0;
    char buffer[1024];
    for (long got; (got = RAW(getdents64, fd, buffer, sizeof buffer)) > 0;)
        for (long at = 0; at < got; count++) {
            struct dirent64 *d = (void *)(buffer + at);
            at += d->d_reclen;
            int i;
            if (sscanf(d->d_name, "file-%03d", &i) == 1) {
                CHECK(!seen[i]++ && (d->d_type == DT_REG || d->d_type == DT_UNKNOWN));
                if (count == 100) GUEST_POINT();
            } else dots++;
        }
    SAY("%d entries, %d of them dots", count, dots);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    long got = RAW(getdents, fd, buffer, sizeof buffer);
    CHECK(got > 0);
    FAILS(EINVAL, RAW(getdents64, fd, buffer, 4));
    int f = open("file-000", O_RDONLY);
    FAILS(ENOTDIR, RAW(getdents64, f, buffer, sizeof buffer));
    DIR *d = opendir(".");
    struct dirent *e;
    count = 0;
    while ((e = readdir(d))) count += unlink(e->d_name) == 0;
    SAY("removed %d", count);
    SUCCESS();
}
