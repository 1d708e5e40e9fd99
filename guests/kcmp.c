// Which resources two processes have in common.
// calls: kcmp
#include "guest.h"

enum { FILE_ = 0, VM, FILES, FS, SIGHAND, IO, SYSVSEM };

static int same(pid_t a, pid_t b, int what, int x, int y) {
    long result = RAW(kcmp, a, b, what, x, y);
    return result < 0 ? -errno : result == 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int p[2], status, other = open("/dev/null", O_RDONLY), again = open("/dev/null", O_RDONLY);
    char byte;
    CHECK(other >= 0 && again >= 0 && pipe(p) == 0 && dup2(p[0], 30) == 30 && dup2(other, 31) == 31);
    put_file("f", "x");
    int one = open("f", O_RDONLY), two = open("f", O_RDONLY), three = dup(one);
    pid_t me = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(p[1]);
        _exit(read(p[0], &byte, 1) == 0 ? 0 : 1);
    }
    // (At home it would look at the deputy of a child that is away.)
    SAY("child's: pipe %d, file %d, another's %d", same(me, child, FILE_, p[0], p[0]), same(me, child, FILE_, one, one), same(me, child, FILE_, one, two));
    GUEST_POINT();
    SAY("dup of a pipe: %d", same(me, me, FILE_, p[0], 30));
    SAY("the other end: %d", same(me, me, FILE_, p[0], p[1]));
    SAY("dup of a device: %d, another: %d", same(me, me, FILE_, other, 31), same(me, me, FILE_, other, again));
    SAY("file: dup %d, another %d", same(me, me, FILE_, one, three), same(me, me, FILE_, one, two));
    int s = socket(AF_INET, SOCK_DGRAM, 0), t = dup(s), u = socket(AF_INET, SOCK_DGRAM, 0);
    SAY("socket: dup %d, another %d", same(me, me, FILE_, s, t), same(me, me, FILE_, s, u));
    SAY("not open: %d", same(me, me, FILE_, 500, 501));
    SAY("memory: own %d, child's %d", same(me, me, VM, 0, 0), same(me, child, VM, 0, 0));
    SAY("descriptors: own %d, child's %d", same(me, me, FILES, 0, 0), same(me, child, FILES, 0, 0));
    SAY("directory: own %d, child's %d", same(me, me, FS, 0, 0), same(me, child, FS, 0, 0));
    SAY("actions: own %d, child's %d", same(me, me, SIGHAND, 0, 0), same(me, child, SIGHAND, 0, 0));
    SAY("nobody: %d, nothing: %d", same(me, 0x3ffffff0, VM, 0, 0), same(me, me, 99, 0, 0));
    CHECK(close(p[1]) == 0 && waitpid(child, &status, 0) == child && status == 0);
    SUCCESS();
}
