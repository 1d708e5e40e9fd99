// Descriptors that a process holds and that wait, too, in a message of its own, or of its child's: both lead to one open file, wherever the process runs.
// calls: sendmsg recvmsg read write
#include "pass.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int own[2], childs[2], ends[2], childs_ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, own) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, childs) == 0);
    CHECK(pipe(ends) == 0 && pipe(childs_ends) == 0);
    int counter = eventfd(1, EFD_NONBLOCK), file = open("f", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(counter >= 0 && write(file, "abcdef", 6) == 6 && lseek(file, 0, SEEK_SET) == 0);
    pid_t child = fork();
    if (child == 0) {
        char c, go;
        close(childs[0]), close(childs_ends[0]), close(childs_ends[1]);
        // It takes its message when its parent has been moved.
        CHECK(read(ends[0], &go, 1) == 1);
        int reads = take(childs[1]);
        CHECK(read(reads, &c, 1) == 1 && c == '5');
        _exit(0);
    }
    pass(childs[0], childs_ends[0]);
    CHECK(close(childs_ends[0]) == 0);
    pass(own[0], ends[1]), pass(own[0], counter), pass(own[0], file);
    GUEST_POINT();
    CHECK(write(childs_ends[1], "5", 1) == 1);
    int writes = take(own[1]), counts = take(own[1]), reads = take(own[1]);
    CHECK(write(writes, "g", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    uint64_t more = 5, all = 0;
    CHECK(write(counter, &more, 8) == 8 && read(counts, &all, 8) == 8);
    FAILS(EAGAIN, read(counter, &more, 8));
    char first, second;
    CHECK(read(file, &first, 1) == 1 && read(reads, &second, 1) == 1);
    SAY("%d %c%c", (int)all, first, second);
    SUCCESS();
}
