/* The end of an MPICH rank without MPI_Finalize.
 *
 * MPICH 4.0 over UCX's TCP hangs in MPI_Finalize at times, without tern, too. A rank that just
 * exits makes the launcher (Hydra) signal proxies that have ended already: mpiexec then dies by
 * SIGPIPE or fails with "assert (!closed)". So the rank says to the launcher what MPI_Finalize
 * says: `cmd=finalize` of PMI version 1, over the descriptor PMI_FD. */
#ifndef LEAVE_MPI_H
#define LEAVE_MPI_H
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends this rank with this status. The others may still need it for their last barrier: it answers them for a second. */
static void leave_with(int status) {
    for (double until = MPI_Wtime() + 1; MPI_Wtime() < until; usleep(1000)) {
        int waits;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waits, MPI_STATUS_IGNORE);
    }
    const char *fd = getenv("PMI_FD"), finalize[] = "cmd=finalize\n";
    char acknowledged[64];
    if (fd && write(atoi(fd), finalize, strlen(finalize)) > 0) (void)!read(atoi(fd), acknowledged, sizeof acknowledged);
    _exit(status);
}

static inline void leave(void) {
    leave_with(0);
}

#endif
