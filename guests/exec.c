// Another program, twice, with what it keeps.
// calls: execve execveat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    if (argc > 1) {
        SAY("%s %s, HOME is %s", argv[1], argv[2], getenv("HOME") ? "set" : "not set");
        SAY("closed: %d, open: %d", fcntl(40, F_GETFD), fcntl(41, F_GETFD));
        struct sigaction a;
        CHECK(sigaction(SIGUSR1, NULL, &a) == 0 && sigaction(SIGUSR2, NULL, &a) == 0);
        SAY("SIGUSR2 %s", a.sa_handler == SIG_IGN ? "still ignored" : "not ignored");
        if (!strcmp(argv[1], "again")) SUCCESS();
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        GUEST_POINT();
        RAW(execveat, fd, "", (char *[]){argv[0], "again", "x", NULL}, (char *[]){NULL}, AT_EMPTY_PATH);
        CHECK(!"execveat");
    }
    CHECK(dup3(1, 40, O_CLOEXEC) == 40 && dup2(1, 41) == 41);
    signal(SIGUSR1, SIG_DFL), signal(SIGUSR2, SIG_IGN);
    FAILS(ENOENT, execl("none", "none", NULL));
    put_file("plain", "x");
    FAILS(EACCES, execl("./plain", "plain", NULL));
    fflush(stdout);
    execle("/proc/self/exe", argv[0], "first", "two words", NULL, (char *[]){"HOME=/nowhere", NULL});
    CHECK(!"execve");
    SUCCESS();
}
