// Being told of changes of files, which only home can.
// calls: inotify_init1 inotify_add_watch inotify_rm_watch
#include "guest.h"
#include <sys/inotify.h>

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    put_file("f", "x");
    int watch = inotify_init1(IN_CLOEXEC);
    CHECK(watch >= 0);
    int file = inotify_add_watch(watch, "f", IN_MODIFY | IN_ATTRIB);
    CHECK(file > 0);
    GUEST_POINT();
    put_file("f", "longer");
    char events[4096];
    struct inotify_event *event = (void *)events;
    CHECK(read(watch, events, sizeof events) >= (ssize_t)sizeof *event);
    SAY("modified: %s", event->mask & IN_MODIFY ? "yes" : "no");
    CHECK(inotify_rm_watch(watch, file) == 0);
    FAILS(EINVAL, inotify_rm_watch(watch, file));
    SUCCESS();
}
