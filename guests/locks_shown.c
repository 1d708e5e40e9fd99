// Locks of descriptors, as /proc shows them (fdinfo in proc_pid_fdinfo(5)).
// calls: fcntl flock open read
#include "guest.h"

static void shows(const char *what, int fd) {
    char path[64], kind[16], advisory[16], mode[16], end[32];
    int pid, many = 0;
    long start;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    const char *text = get_file(path);
    CHECK(strstr(text, "pos:\t") && strstr(text, "flags:\t"));
    for (const char *line = text; (line = strstr(line, "lock:\t")); line++, many++) {
        CHECK(sscanf(line, "lock:\t%*d: %15s %15s %15s %d %*s %ld %31s", kind, advisory, mode, &pid, &start, end) == 6);
        SAY("%s: %s %s %s, %s, %ld to %s", what, kind, advisory, mode, pid == getpid() ? "its own" : pid == -1 ? "nobody's" : "another's", start, end);
    }
    SAY("%s: %d", what, many);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int before = open("before", O_CREAT | O_RDWR, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 3, .l_len = 5}, rest = {.l_type = F_RDLCK, .l_start = 100}, open_file = {.l_type = F_WRLCK};
    CHECK(before >= 0 && fcntl(before, F_SETLK, &lock) == 0);
    GUEST_POINT();
    shows("before", before);
    int records = open("records", O_CREAT | O_RDWR, 0600), flocked = open("flocked", O_CREAT | O_RDWR, 0600), own = open("own", O_CREAT | O_RDWR, 0600);
    CHECK(records >= 0 && flocked >= 0 && own >= 0);
    shows("none", records);
    CHECK(fcntl(records, F_SETLK, &lock) == 0 && fcntl(records, F_SETLK, &rest) == 0);
    CHECK(flock(flocked, LOCK_SH) == 0 && fcntl(own, F_OFD_SETLK, &open_file) == 0);
    shows("records", records), shows("flocked", flocked), shows("open file's", own);
    CHECK(lseek(records, 7, SEEK_SET) == 7 && strstr(get_file("/proc/self/fdinfo/0"), "pos:\t"));
    lock.l_type = rest.l_type = F_UNLCK;
    CHECK(fcntl(records, F_SETLK, &lock) == 0 && flock(flocked, LOCK_UN) == 0);
    shows("half of them", records), shows("unlocked", flocked);
    SUCCESS();
}
