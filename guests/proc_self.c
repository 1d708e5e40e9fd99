// What /proc says about oneself.
// calls: readlinkat openat
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    char exe[PATH_MAX] = {0};
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    SAY("exe ends in %s", strrchr(exe, '/') + 1);
    GUEST_POINT();
    SAY("command line begins with its name: %s", !strcmp(get_file("/proc/self/cmdline"), argv[0]) ? "yes" : "no");
    int threads = 0;
    for (const char *s = strstr(get_file("/proc/self/status"), "Threads:"); s; s = NULL) threads = atoi(s + 8);
    SAY("threads %d", threads);
    SAY("own mappings are listed: %s", strstr(get_file("/proc/self/maps"), strrchr(exe, '/')) ? "yes" : "no");
    SUCCESS();
}
