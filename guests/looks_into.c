// Another's memory is read and written: a child's by its parent, and the parent's by the child.
// calls: process_vm_readv process_vm_writev
#include "guest.h"

static char text[32] = "before";

static ssize_t look(int pid, char *to, void *from, size_t bytes) {
    struct iovec local = {to, bytes}, remote = {from, bytes};
    return RAW(process_vm_readv, pid, &local, 1, &remote, 1, 0);
}

static ssize_t put(int pid, const char *from, void *to, size_t bytes) {
    struct iovec local = {(char *)from, bytes}, remote = {to, bytes};
    return RAW(process_vm_writev, pid, &local, 1, &remote, 1, 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char seen[32] = "";
    int ready[2], go[2], status, parent = getpid();
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    GUEST_POINT();
    int child = fork();
    if (child == 0) {
        char c;
        strcpy(text, "the child's");
        CHECK(write(ready[1], "r", 1) == 1 && read(go[0], &c, 1) == 1);
        CHECK(!strcmp(text, "from outside"));
        CHECK(look(parent, seen, text, sizeof seen) == sizeof seen && !strcmp(seen, "before"));
        CHECK(put(parent, "by the child", text, 13) == 13);
        _exit(0);
    }
    CHECK(read(ready[0], seen, 1) == 1);
    CHECK(look(child, seen, text, sizeof seen) == sizeof seen);
    SAY("read: %s", seen);
    CHECK(put(child, "from outside", text, 13) == 13);
    CHECK(look(getpid(), seen, text, sizeof seen) == sizeof seen);
    SAY("its own: %s", seen);
    FAILS(EFAULT, look(child, seen, (void *)8, 8));
    FAILS(ESRCH, look(1 << 30, seen, text, 8));
    FAILS(EINVAL, RAW(process_vm_readv, child, NULL, 0, NULL, 0, 1));
    CHECK(write(go[1], "g", 1) == 1 && waitpid(child, &status, 0) == child);
    SAY("%d, now: %s", status, text);
    FAILS(ESRCH, look(child, seen, text, 8));
    SUCCESS();
}
