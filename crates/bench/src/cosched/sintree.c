/* sintree N TASKS: in each of N iterations the first task sends a message to each of the others and
 * receives one from each (section 5 of the paper: "one to various, and various to one"). */
#include "comm.h"

enum { WORDS = 4 };

int main(int argc, char **argv) {
    comm_begin(&argc, &argv);
    uint64_t iterations = strtoull(argv[1], NULL, 10), wrong = 0;
    uint64_t message[WORDS] = {0};
    comm_barrier();
    double begun = comm_seconds();
    for (uint64_t n = 0; n < iterations; n++) {
        if (comm_rank) {
            comm_receive(0, message, sizeof message);
            message[0] += comm_rank;
            comm_send(0, message, sizeof message);
            continue;
        }
        for (int to = 1; to < comm_size; to++) {
            message[0] = n * 1000003ull + to;
            comm_send(to, message, sizeof message);
        }
        for (int from = 1; from < comm_size; from++) {
            comm_receive(from, message, sizeof message);
            wrong += message[0] != n * 1000003ull + 2ull * from;
        }
    }
    return comm_report(!wrong, comm_seconds() - begun);
}
