// A process makes children all the time that write to a pipe; another child has the pipe too. Whoever is moved meanwhile, every heir can use what it has inherited.
// calls: close fork pipe read wait4 write
#include "guest.h"

enum { ROUNDS = 10, HEIRS = 10 };

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int round = 0; round < ROUNDS; round++) {
        int p[2], end[2], status;
        CHECK(pipe(p) == 0 && pipe(end) == 0);
        pid_t witness = fork();
        if (witness == 0) {
            char byte;
            close(end[1]);
            _exit((int)read(end[0], &byte, 1));
        }
        for (int n = 0; n < HEIRS; n++) {
            char byte = 'a' + (char)n, got = 0;
            pid_t heir = fork();
            if (heir == 0) _exit(write(p[1], &byte, 1) == 1 ? 0 : errno);
            CHECK(waitpid(heir, &status, 0) == heir);
            if (status != 0) SAY("an heir: %s", strerrorname_np(WEXITSTATUS(status)));
            else CHECK(read(p[0], &got, 1) == 1 && got == byte);
            usleep(300);
        }
        if (round == ROUNDS / 2) GUEST_POINT();
        close(end[1]);
        CHECK(waitpid(witness, &status, 0) == witness && status == 0);
        close(end[0]), close(p[0]), close(p[1]);
    }
    SUCCESS();
}
