/* Messages between the tasks of a job: by MPI, or with -DBY_PVM by PVM. All collective operations
 * are made of single messages, so both libraries carry the same. */
#ifndef COMM_H
#define COMM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Each program uses a part of this. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { COMM_TASKS_MAX = 64 };
static int comm_rank, comm_size;

static double comm_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

#ifdef BY_PVM
#include <pvm3.h>
static int comm_tids[COMM_TASKS_MAX];

static int comm_must(int code) {
    if (code >= 0) return code;
    fprintf(stderr, "PVM error %d\n", code);
    exit(3);
}

static void comm_send(int to, const void *bytes, size_t count) {
    comm_must(pvm_initsend(PvmDataRaw));
    comm_must(pvm_pkbyte((char *)bytes, count, 1));
    comm_must(pvm_send(comm_tids[to], 1));
}

static void comm_receive(int from, void *bytes, size_t count) {
    comm_must(pvm_recv(comm_tids[from], 1));
    comm_must(pvm_upkbyte(bytes, count, 1));
}

/* Sends to one task and receives from another one. PVM's sends take what comes meanwhile. */
static void comm_exchange(int to, const void *out, size_t out_count, int from, void *in, size_t in_count) {
    comm_send(to, out, out_count);
    comm_receive(from, in, in_count);
}

/* Has each two tasks connect, of which the lower one begins. PVM 3.4.6 loses a task now and then (1 of
 * 150 jobs here) if two connect to each other at the same moment. */
static void comm_connect(void) {
    char byte = 0;
    for (int low = 0; low < comm_size; low++)
        for (int high = low + 1; high < comm_size; high++) {
            if (comm_rank == low) comm_send(high, &byte, 1), comm_receive(high, &byte, 1);
            if (comm_rank == high) comm_receive(low, &byte, 1), comm_send(low, &byte, 1);
        }
}

/* Begins. The first task starts the others: as many as the last argument says, itself included. */
static void comm_begin(int *argc, char ***argv) {
    int parent = (comm_must(pvm_mytid()), pvm_parent());
    comm_size = atoi((*argv)[--*argc]);
    if (comm_size < 1 || comm_size > COMM_TASKS_MAX) exit(2);
    comm_must(pvm_setopt(PvmRoute, PvmRouteDirect));
    if (parent < 0) {
        char self[4096] = {0};
        comm_tids[0] = pvm_mytid();
        if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) exit(4);
        int begun = comm_size > 1 ? pvm_spawn(self, *argv + 1, PvmTaskDefault, "", comm_size - 1, comm_tids + 1) : 0;
        if (begun != comm_size - 1) exit(3);
        for (int rank = 1; rank < comm_size; rank++) {
            comm_must(pvm_initsend(PvmDataRaw));
            comm_must(pvm_pkint(&rank, 1, 1));
            comm_must(pvm_pkint(comm_tids, comm_size, 1));
            comm_must(pvm_send(comm_tids[rank], 2));
        }
    } else {
        comm_must(pvm_recv(parent, 2));
        comm_must(pvm_upkint(&comm_rank, 1, 1));
        comm_must(pvm_upkint(comm_tids, comm_size, 1));
    }
    comm_connect();
}

static void comm_end(void) {
    pvm_exit();
}
#else
#include <mpi.h>

static void comm_send(int to, const void *bytes, size_t count) {
    MPI_Send(bytes, (int)count, MPI_BYTE, to, 1, MPI_COMM_WORLD);
}

static void comm_receive(int from, void *bytes, size_t count) {
    MPI_Recv(bytes, (int)count, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void comm_exchange(int to, const void *out, size_t out_count, int from, void *in, size_t in_count) {
    MPI_Sendrecv(out, (int)out_count, MPI_BYTE, to, 1, in, (int)in_count, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void comm_begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &comm_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm_size);
    --*argc;
}

static void comm_end(void) {
    MPI_Finalize();
}
#endif

/* Gives all tasks the sums over all tasks. */
static void comm_sum(double *values, size_t count) {
    size_t bytes = count * sizeof *values;
    if (comm_rank) {
        comm_send(0, values, bytes);
        comm_receive(0, values, bytes);
        return;
    }
    double *theirs = malloc(bytes ? bytes : 1);
    for (int from = 1; from < comm_size; from++) {
        comm_receive(from, theirs, bytes);
        for (size_t at = 0; at < count; at++) values[at] += theirs[at];
    }
    for (int to = 1; to < comm_size; to++) comm_send(to, values, bytes);
    free(theirs);
}

/* Gives all tasks the first one's bytes. */
static void comm_broadcast(void *bytes, size_t count) {
    if (comm_rank) comm_receive(0, bytes, count);
    else for (int to = 1; to < comm_size; to++) comm_send(to, bytes, count);
}

/* Waits for all tasks. */
static void comm_barrier(void) {
    double none = 0;
    comm_sum(&none, 1);
}

/* The first task says how long the job took, and whether its results were right. Ends the task. */
static int comm_report(int is_right, double seconds) {
    if (!comm_rank) {
        if (is_right) printf("all right: %.6f s\n", seconds);
        else printf("the result is wrong\n");
        fflush(stdout);
    }
    comm_barrier();
    comm_end();
    return is_right ? 0 : 5;
}

#endif
