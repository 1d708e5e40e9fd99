/* A number goes round all ranks, and each adds one. Words: seconds to wait then, and the exit status. */
#include <mpi.h>
#ifdef MPICH_VERSION
#include "leave_mpi.h"
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
    int rank, ranks, number = 0;
    char host[64];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gethostname(host, sizeof host);
    for (int round = 0; round < 100; round++) {
        if (rank > 0)
            MPI_Recv(&number, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        number++;
        MPI_Send(&number, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&number, 1, MPI_INT, ranks - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d on %s: %d\n", rank, host, number);
    fflush(stdout);
    sleep(count > 1 ? atoi(words[1]) : 0);
    MPI_Barrier(MPI_COMM_WORLD);
    int status = count > 2 ? atoi(words[2]) : 0;
#ifdef MPICH_VERSION
    leave_with(status);
#endif
    MPI_Finalize();
    return status;
}
