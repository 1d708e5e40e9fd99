// Children made just after a thread has ended can do all that others can: nothing of the thread is left, and nothing of theirs is taken for it.
// calls: clone clone3 exit wait4 getppid
#include "guest.h"

static void *ends(void *none) {
    getppid();
    return none;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    int right = 0;
    for (int i = 0; i < 20; i++) {
        if (i == 10) GUEST_POINT();
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, ends, NULL) == 0 && pthread_join(thread, NULL) == 0);
        pid_t parent = getpid(), child = fork();
        if (child == 0) _exit(getppid() == parent && getppid() == parent ? 7 : 1);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        right += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    SAY("children that did right: %d", right);
    SUCCESS();
}
