// Objects that other processes of the node share.
#include "attack.h"

int main(void) {
    guard();
    // Without IPC_CREAT: only an object of the node's could be found.
    HELD_OFF(RAW(shmget, 0x1234, 4096, 0666));
    HELD_OFF(RAW(shmat, 0, NULL, 0));
    HELD_OFF(RAW(msgget, 0x1234, 0666));
    HELD_OFF(RAW(semget, 0x1234, 1, 0666));
    HELD_OFF(RAW(mq_open, "tern", O_CREAT | O_RDWR, 0600, NULL));
    HELD_OFF(RAW(fanotify_init, 0, 0));
    HELD_OFF(RAW(name_to_handle_at, AT_FDCWD, "/", NULL, NULL, 0));
    HELD_OFF(RAW(open_by_handle_at, AT_FDCWD, NULL, O_RDONLY));
    OVER();
}
