// Terminals behind descriptors above the standard ones have a name and look like terminals; their numbers may mean something else later.
// calls: fstat newfstatat statx ioctl dup close
#include "guest.h"

static int is_character(int fd) {
    struct stat st;
    struct statx stx;
    CHECK(fstat(fd, &st) == 0 && syscall(SYS_statx, fd, "", AT_EMPTY_PATH, 0x7ff, &stx) == 0);
    CHECK(S_ISCHR(st.st_mode) == S_ISCHR(stx.stx_mode));
    return S_ISCHR(st.st_mode);
}

static void *in_thread(void *fd) {
    SAY("in a thread: %d", is_character(*(int *)fd));
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int master = posix_openpt(O_RDWR | O_NOCTTY), file = open("/etc/passwd", O_RDONLY);
    CHECK(master >= 0 && file >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave > 2 && isatty(slave) == 1 && is_character(slave));
    GUEST_POINT();
    CHECK(isatty(slave) == 1 && isatty(file) == 0);
    SAY("name: %s", strncmp(ttyname(slave), "/dev/pts/", 9) == 0 ? "of a terminal" : "another");
    SAY("terminal %d, file %d", is_character(slave), is_character(file));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, &slave) == 0 && pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) _exit(is_character(slave) && ttyname(slave) ? 7 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("a child: %d", WEXITSTATUS(status));
    close(slave);
    int other = open("/etc/passwd", O_RDONLY);
    SAY("the number again: %d, terminal %d", other == slave, is_character(other));
    SUCCESS();
}
