// What all attacks share: a guest that tries to harm the node that hosts it, and says whether it got anywhere.
//
// They run as an ordinary user of the home, placed, and only with TERN_ATTACK=placed in the environment: natively they are refused, as
// some would be allowed to a superuser.
// What lies on the hosting node for them to find: TERN_MARKER names a file that is there and not at home; TERN_ADDRESS is an IPv4 address
// and TERN_PORT a TCP port that listens there.
#ifndef ATTACK_H
#define ATTACK_H
#include "../guest.h"
#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/un.h>

static int attempts, broken;

// One attempt. It is held off if `holds_off` is true.
static inline void attempt(const char *what, bool holds_off) {
    int error = errno;
    attempts++;
    broken += !holds_off;
    printf("%s: %s%s%s\n", what, holds_off ? "held off" : "GOT THROUGH", holds_off && error ? ", " : "",
           holds_off && error ? strerrorname_np(error) : "");
}

// The call must fail.
#define HELD_OFF(call) (errno = 0, attempt(#call, (call) == -1))

static inline void guard(void) {
    const char *allowed = getenv("TERN_ATTACK");
    if (!allowed || strcmp(allowed, "placed")) {
        puts("refused: not placed");
        exit(99);
    }
}

#define OVER()                                              \
    do {                                                    \
        SAY("%d attempts, %d got through", attempts, broken); \
        if (broken) return 1;                               \
        SUCCESS();                                          \
    } while (0)

// The hosting node's file, under any root that can be named; true if its content is seen.
static inline bool marker_below(const char *root) {
    char path[PATH_MAX];
    const char *marker = getenv("TERN_MARKER");
    snprintf(path, sizeof path, "%s%s", root, marker ? marker : "/none");
    int fd = open(path, O_RDONLY);
    if (fd >= 0) close(fd);
    return fd >= 0;
}
#endif
