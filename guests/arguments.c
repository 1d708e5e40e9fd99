// Arguments and environment.
// calls: execve
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    SAY("%d arguments, the last is '%s'", argc, argc > 1 ? argv[argc - 1] : "");
    GUEST_POINT();
    const char *value = getenv("GUEST_VALUE");
    SAY("environment: %s", value ? value : "not set");
    SUCCESS();
}
