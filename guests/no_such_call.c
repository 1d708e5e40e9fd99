// Numbers that are no calls.
// calls: 
#include "guest.h"

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    FAILS(ENOSYS, syscall(400));
    FAILS(ENOSYS, syscall(SYS_create_module));
    FAILS(ENOSYS, syscall(SYS_tuxcall));
    FAILS(ENOSYS, syscall(5000));
    FAILS(ENOSYS, syscall(-1));
    SUCCESS();
}
