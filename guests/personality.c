// How the kernel is to look (personality(2)): each thread has its own, children and programs inherit it.
// calls: personality uname
#include "guest.h"
#include <sys/personality.h>

#define ASK 0xffffffff

static pthread_barrier_t turn;

static void say(const char *who) {
    struct utsname names;
    CHECK(uname(&names) == 0);
    unsigned long shown = strtoul(get_file("/proc/self/personality"), NULL, 16);
    SAY("%s: %x (%lx), machine %s", who, personality(ASK), shown, names.machine);
}

static void *other(void *unused) {
    CHECK(personality(SHORT_INODE) == PER_LINUX);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    SAY("a thread: %x", personality(ASK));
    return unused;
}

int main(int argc, char **argv) {
    if (argc == 2) {
        say(argv[1]);
        SUCCESS();
    }
    pthread_t thread;
    CHECK(personality(ASK) == PER_LINUX && pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    CHECK(personality(PER_LINUX32 | ADDR_NO_RANDOMIZE | WHOLE_SECONDS) == PER_LINUX);
    pthread_barrier_wait(&turn);
    GUEST_POINT();
    say("as it was set");
    pthread_barrier_wait(&turn);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(personality(PER_LINUX32 | ADDR_NO_RANDOMIZE | STICKY_TIMEOUTS) == (PER_LINUX32 | ADDR_NO_RANDOMIZE | WHOLE_SECONDS));
    say("set again");
    CHECK(fflush(stdout) == 0);
    pid_t child = fork();
    if (child == 0) {
        say("a child");
        fflush(stdout);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    execl("/proc/self/exe", argv[0], "the next program", NULL);
    CHECK(!"executed");
}
