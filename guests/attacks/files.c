// Reaching files of the hosting node, by every root that /proc names.
#include "attack.h"

int main(void) {
    guard();
    attempt("the marker by its path", !marker_below(""));
    attempt("the marker above the root", !marker_below("/../../../.."));
    int seen = 0, roots = 0;
    char path[64];
    for (int pid = 1; pid < 40000; pid++) {
        const char *names[] = {"root", "cwd"};
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "/proc/%d/%s", pid, names[i]);
            if (access(path, X_OK) == 0) roots++;
            // Most numbers are nobody's: nothing lies below what is not there.
            else if (errno == ENOENT) continue;
            seen += marker_below(path);
        }
    }
    errno = 0;
    attempt("the marker below /proc/PID/root and cwd", seen == 0);
    attempt("the marker below /proc/self/root", !marker_below("/proc/self/root/.."));
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d/..", fd);
        seen += marker_below(path);
    }
    errno = 0;
    attempt("the marker from descriptors that were left open", seen == 0);
    OVER();
}
