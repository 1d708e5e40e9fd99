// A directory that is entered as soon as it is made has a path: what is told of its making comes too late to make the kernel forget it.
// calls: mkdir chdir getcwd rmdir
#include "guest.h"

enum { CHILDREN = 4, ROUNDS = 250 };

static int paths(int child) {
    char place[16], path[4096];
    int without = 0;
    snprintf(place, sizeof place, "place%d", child);
    CHECK(mkdir(place, 0755) == 0 && chdir(place) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", round);
        CHECK(mkdir(name, 0755) == 0 && chdir(name) == 0);
        without += getcwd(path, sizeof path) == NULL;
        CHECK(chdir("..") == 0 && rmdir(name) == 0);
    }
    CHECK(chdir("..") == 0 && rmdir(place) == 0);
    return without;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        if ((children[i] = fork()) == 0) _exit(paths(i) > 0);
    GUEST_POINT();
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        SAY("child: %d", status);
    }
    SUCCESS();
}
