/* turns DIRECTORY COUNT: so many processes compute until there is a file DIRECTORY/end. Then each
 * writes DIRECTORY/NUMBER, with a line for each time in which it ran: its beginning and end in
 * nanoseconds since 1970. A gap of 50 us ends a time. The first process writes its own number to
 * DIRECTORY/pid, and waits for the others. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GAP_NS = 50000, MOST = 1 << 20, LOOK = 1 << 12 };

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static FILE *create(int number, const char *name) {
    char path[64];
    name ? snprintf(path, sizeof path, "%s", name) : snprintf(path, sizeof path, "%d", number);
    return fopen(path, "w");
}

static int compute(int number) {
    static long long begin[MOST], end[MOST];
    int times = 0;
    begin[0] = end[0] = now_ns();
    for (unsigned n = 1; n % LOOK || access("end", F_OK); n++) {
        long long now = now_ns();
        if (now - end[times] > GAP_NS && times + 1 < MOST) begin[++times] = now;
        end[times] = now;
    }
    FILE *file = create(number, NULL);
    for (int n = 0; n <= times; n++) fprintf(file, "%lld %lld\n", begin[n], end[n]);
    return fclose(file);
}

int main(int count, char **words) {
    if (count != 3 || chdir(words[1])) return 2;
    for (int number = 0; number < atoi(words[2]); number++)
        if (fork() == 0) return compute(number);
    FILE *file = create(0, "draft");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    rename("draft", "pid");
    int failed = 0, status;
    while (wait(&status) > 0) failed |= status;
    return failed != 0;
}
