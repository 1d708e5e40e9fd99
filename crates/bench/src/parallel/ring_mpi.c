/* ring_mpi SIZES ROUNDS: a ring of MPI ranks. In each round each rank sends a message to its right
 * and takes one from its left, and all add a number up.
 *
 * The sizes of messages are taken in turn. Without ROUNDS (0) the ring goes on until there is a file
 * `end`, and each byte is checked; else it is timed. The same source is for MPICH and Open MPI. */
#include "leave_mpi.h"
#include "stamp.h"

int main(int argc, char **argv) {
    int index, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &index);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    struct sizes sizes = sizes_of(argv[1]);
    uint64_t rounds = strtoull(argv[2], NULL, 10), last = 0, bytes_sent = 0;
    tell_pid(index);
    int right = (index + 1) % size, left = (index + size - 1) % size;
    char *out = malloc(sizes.most + sizeof(struct stamp)), *in = malloc(sizes.most + sizeof(struct stamp));
    if (!rounds && !access("late", F_OK)) await_release();
    /* Ranks connect for these now, at home. */
    double none = 0, most;
    MPI_Reduce(&none, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = seconds();
    for (uint64_t round = 1; !last || round <= last; round++) {
        uint32_t bytes = size_at(&sizes, round), whole = bytes + sizeof(struct stamp);
        if (rounds && round == 2) {
            await_release();
            begun = seconds();
        }
        if (!last && !index) last = last_round(round, rounds, size);
        if (rounds && round > 1) {
            struct stamp stamp = {round, last, 0, index, bytes};
            memcpy(out, &stamp, sizeof stamp);
        } else {
            stamp_write(out, index, round, last, bytes);
        }
        MPI_Sendrecv(out, whole, MPI_BYTE, right, 0, in, whole, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        bytes_sent += whole;
        const char *wrong = rounds ? NULL : stamp_wrong(in, left, round, bytes);
        if (!rounds && !wrong) {
            long mine = round * 100 + index, sum = 0;
            MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
            if (sum != (long)round * 100 * size + size * (size - 1) / 2) wrong = "the sum of all ranks is wrong";
        }
        if (wrong) {
            fprintf(stderr, "rank %d: %s\n", index, wrong);
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
        struct stamp stamp;
        memcpy(&stamp, in, sizeof stamp);
        if (!last) last = stamp.last;
        if (!index && !rounds) tell_round(round);
    }
    double took = seconds() - begun, longest = 0;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    unsigned long long all_sent = 0, sent = bytes_sent;
    MPI_Reduce(&sent, &all_sent, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!index) {
        printf("all right: %llu rounds, %llu bytes, %.6f s\n", (unsigned long long)(rounds ? rounds : last), all_sent, longest);
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
#ifdef OPEN_MPI
    MPI_Finalize();
    return 0;
#else
    leave();
#endif
}
