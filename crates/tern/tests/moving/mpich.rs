//! Ranks of a real MPI, MPICH over UCX: UCX waits by an epoll inside of another one, in each of its
//! processes.
//!
//! The ranks talk over TCP (`UCX_TLS`), for memory in common keeps processes on one machine. They
//! end without MPI_Finalize (`leave_mpi.h` says why).

use crate::{at_home, program, shared};

/// Ends a rank.
const LEAVE: &str = include_str!("../../../bench/src/parallel/leave_mpi.h");

/// Passes a token round, and adds numbers up, until rank 0 finds a file `end`. Rank 0 prints a line
/// each round.
const RING: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, end = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char name[16];
    snprintf(name, sizeof name, "rank.%d", rank);
    FILE *file = fopen(name, "w");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    for (long round = 0; !end; round++) {
        int left = (rank + size - 1) % size;
        long token = round * 100 + rank, got, sum;
        MPI_Sendrecv(&token, 1, MPI_LONG, (rank + 1) % size, 0, &got, 1, MPI_LONG, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&got, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (got != round * 100 + left || sum != round * 100 * size + size * (size - 1) / 2) {
            printf("wrong: %ld %ld\n", got, sum);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        if (!rank) { printf("%ld\n", round); fflush(stdout); end = !access("end", F_OK); }
        MPI_Bcast(&end, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) { puts("all right"); fflush(stdout); }
    leave();
}
"#;

/// What MPICH is told, and how a script waits for the ring to go on.
const MPI: &str = r"
export UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1
mpi() { timeout -s KILL 80 mpiexec.mpich $@ > said 2> errors < /dev/null & job=$!; until_ '[ $(cat rank.? 2> /dev/null | wc -l) = 3 ]'; }
goes_on() { lines said $(($(wc -l < said) + 5)); }
ends() { touch end; wait $job; echo $?; tail -1 said; cat errors; }
";

fn ring(lab: &lab::Lab) -> String {
    let output = std::process::Command::new("mpicc.mpich").arg("-link_info").output().unwrap();
    // The compiler's name, and its flags.
    let command = String::from_utf8(output.stdout).unwrap();
    program(lab, "ring", &format!("{LEAVE}{RING}"), &command.split_whitespace().skip(1).collect::<Vec<_>>())
}

/// Three ranks that began at home go to other nodes, on, and home again, while they compute.
#[test]
fn ranks_move() {
    let lab = shared();
    let ring = ring(&lab);
    let text = at_home(
        &lab,
        &format!(
            r#"{MPI}
        mpi -n 3 {ring}
        goes_on
        tern move $(cat rank.0) n2 && tern move $(cat rank.1) n3 && tern move $(cat rank.2) n2 --how post && goes_on
        tern move $(cat rank.0) n3 && tern move $(cat rank.1) home && goes_on
        tern move $(cat rank.2) home && tern move $(cat rank.0) home && goes_on
        ends"#
        ),
    )
    .text();
    assert_eq!(text, "0\nall right");
}

/// Ranks that are placed on other nodes compute the same, and move, too.
#[test]
fn placed_ranks_do_the_same() {
    let lab = shared();
    let ring = ring(&lab);
    let text = at_home(
        &lab,
        &format!(
            r#"{MPI}
        mpi -n 1 tern run --on n2 -- {ring} : -n 1 tern run --on n3 -- {ring} : -n 1 {ring}
        goes_on
        tern move $(cat rank.2) n2 && goes_on
        ends"#
        ),
    )
    .text();
    assert_eq!(text, "0\nall right");
}

/// Ranks on several nodes that share memory as MPICH wants it come home for that, and say so.
#[test]
fn ranks_that_share_memory_meet_at_home() {
    let lab = shared();
    let ring = ring(&lab);
    let text = at_home(
        &lab,
        &format!(
            r#"{MPI}
        unset UCX_TLS MPIR_CVAR_NOLOCAL
        mpi -n 1 tern run --on n2 -- {ring} : -n 1 tern run --on n3 -- {ring} : -n 1 {ring}
        goes_on
        pids=$(cat rank.0 rank.1)
        ends
        for pid in $pids; do tern log -n 2000 | grep -o "process $pid came home for [^,]*"; done"#
        ),
    )
    .text();
    let mut lines: Vec<&str> = text.lines().collect();
    let (status, said) = (lines.remove(0), lines.remove(0));
    assert_eq!((status, said), ("0", "all right"), "{text}");
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("/dev/shm/")), "{text}");
}
