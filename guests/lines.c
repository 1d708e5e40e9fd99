// Children and their parent write to one open file in turn, by several numbers, while children come and go: every line is there, once, and in order.
// calls: dup fork lseek wait4 write
#include "guest.h"

enum { LINES = 240, BYTES = 9 };

static int by_number[3];

static void say(int n) {
    char line[BYTES + 1];
    CHECK(snprintf(line, sizeof line, "line %03d\n", n) == BYTES);
    CHECK(write(by_number[n % 3], line, BYTES) == BYTES);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int file = open("lines", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0);
    by_number[0] = file, by_number[1] = dup(file), by_number[2] = dup(file);
    CHECK(by_number[1] >= 0 && by_number[2] >= 0);
    for (int n = 0; n < LINES; n += 3) {
        say(n);
        pid_t child = fork();
        if (child == 0) {
            say(n + 1);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        long at = lseek(by_number[2], 0, SEEK_CUR);
        if (at != (n + 2) * BYTES) SAY("after line %d at: %ld lines, %ld bytes", n + 1, at / BYTES, at % BYTES);
        if (n % 60 == 30) GUEST_POINT();
        say(n + 2);
        usleep(2000);
    }
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    for (int n = 0; n < LINES; n++) {
        char line[BYTES + 1] = {0}, right[BYTES + 1];
        CHECK(read(by_number[n % 3], line, BYTES) == BYTES);
        snprintf(right, sizeof right, "line %03d\n", n);
        if (strcmp(line, right)) {
            line[BYTES - 1] = 0;
            SAY("line %d is: %s", n, line);
            return 1;
        }
    }
    CHECK(read(file, (char[1]){0}, 1) == 0);
    SUCCESS();
}
