/* spawn_pvm COUNT HOST,HOST,... PROGRAM ARGUMENT...: has PVM start so many processes of a program, on
 * these hosts in turn, and waits until the last has ended. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXITED = 1 };

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int count = atoi(argv[1]), hosts = 0;
    char *host[256];
    for (char *at = strtok(argv[2], ","); at && hosts < 256; at = strtok(NULL, ",")) host[hosts++] = at;
    if (pvm_mytid() < 0 || !hosts) return 3;
    for (int i = 0; i < count; i++) {
        int tid;
        if (pvm_spawn(argv[3], argv + 4, PvmTaskHost, host[i % hosts], 1, &tid) != 1) {
            fprintf(stderr, "process %d was not started on %s: PVM error %d\n", i, host[i % hosts], tid);
            pvm_exit();
            return 3;
        }
        pvm_notify(PvmTaskExit, EXITED, 1, &tid);
    }
    for (int ended = 0; ended < count; ended++)
        if (pvm_recv(-1, EXITED) < 0) return 3;
    pvm_exit();
    return 0;
}
