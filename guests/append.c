// Two appending writers lose nothing.
// calls: openat write
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int a = open("f", O_CREAT | O_WRONLY | O_APPEND, 0600), b = open("f", O_WRONLY | O_APPEND);
    for (int i = 0; i < 5; i++) {
        CHECK(write(a, "a", 1) == 1 && write(b, "b", 1) == 1);
        if (i == 2) GUEST_POINT();
    }
    CHECK(lseek(a, 0, SEEK_SET) == 0 && write(a, "!", 1) == 1);
    SAY("%s", get_file("f"));
    SAY("position %ld", (long)lseek(a, 0, SEEK_CUR));
    SUCCESS();
}
