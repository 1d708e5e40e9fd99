// Ends with 7.
// calls: exit_group
// ends: exit 7
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    puts("EXIT-SUCCESS");
    fflush(stdout);
    GUEST_POINT();
    RAW(exit_group, 7);
}
