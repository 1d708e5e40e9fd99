// Changes of files are told to who watches them.
// calls: inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
#include "guest.h"
#include <sys/inotify.h>

static void told(int fd, const char *what) {
    char buffer[4096];
    struct pollfd p = {fd, POLLIN, 0};
    CHECK(poll(&p, 1, 20000) == 1);
    ssize_t n = read(fd, buffer, sizeof buffer);
    CHECK(n > 0);
    for (char *at = buffer; at < buffer + n;) {
        struct inotify_event *event = (struct inotify_event *)at;
        SAY("%s: watch %d, mask %x, name %s", what, event->wd, event->mask, event->len ? event->name : "-");
        at += sizeof *event + event->len;
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), plain = (int)RAW(inotify_init);
    CHECK(fd >= 0 && plain >= 0);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(plain, F_GETFD) == 0);
    char b[64];
    FAILS(EAGAIN, read(fd, b, sizeof b));
    CHECK(mkdir("d", 0700) == 0);
    int d = inotify_add_watch(fd, "d", IN_CREATE | IN_DELETE | IN_MOVED_FROM);
    SAY("watch %d", d);
    FAILS(ENOENT, inotify_add_watch(fd, "none", IN_CREATE));
    FAILS(EINVAL, inotify_rm_watch(fd, 77));
    int f = open("d/f", O_CREAT | O_WRONLY, 0600);
    CHECK(f >= 0);
    told(fd, "made");
    // A path is relative to where this process is now.
    CHECK(chdir("d") == 0);
    CHECK(inotify_add_watch(plain, "f", IN_MODIFY | IN_ATTRIB) == 1);
    CHECK(write(f, "x", 1) == 1);
    told(plain, "written");
    pid_t child = fork();
    if (child == 0) _exit(unlink("f"));
    told(fd, "removed by a child");
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(inotify_rm_watch(fd, d) == 0);
    told(fd, "given up");
    SUCCESS();
}
