//! Queues of unmodified ranks of MPI.

use crate::{Recording, common, on_first};

/// Rank 1 sends 17 messages that rank 0 does not receive yet, 4 and 2 large ones by another
/// communicator; rank 0 waits for three messages that nobody sends. When there is a file `go`, it
/// receives the 17.
const RANKS: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
static char body[300000];
int main(int count, char **words) {
    int rank, found;
    MPI_Comm other;
    MPI_Request requests[3];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 1) {
        for (int n = 0; n < 17; n++) MPI_Send(body, 1000, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
        for (int n = 0; n < 4; n++) MPI_Send(body, 100, MPI_CHAR, 0, 5, other);
        for (int n = 0; n < 2; n++) MPI_Isend(body, 300000, MPI_CHAR, 0, 5, other, &requests[n]);
        for (;;) pause();
    }
    MPI_Irecv(body, 10, MPI_CHAR, 1, 99, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(body, 10, MPI_CHAR, MPI_ANY_SOURCE, 98, other, &requests[1]);
    MPI_Irecv(body, 10, MPI_CHAR, MPI_ANY_SOURCE, 97, other, &requests[2]);
    FILE *file = fopen("draft", "w");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    rename("draft", "pid");
    while (access("go", 0) != 0) {
        MPI_Iprobe(1, 77, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    for (int n = 0; n < 17; n++) MPI_Recv(body, 1000, MPI_CHAR, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    fclose(fopen("taken", "w"));
    for (;;) pause();
}
"#;

/// Messages that nobody receives: the exact number of a real job of Open MPI, in all communicators.
#[test]
fn the_unexpected_queue_of_a_rank_is_counted_exactly() {
    if !["mpirun.openmpi", "mpicc.openmpi"].iter().all(|program| common::is_installed(program)) {
        skip::test("Open MPI is not installed");
        return;
    }
    let text = on_first(&format!(
        r#"
        cat > ranks.c <<'END'{RANKS}END
        mpicc.openmpi -o ranks ranks.c || exit 8
        export TMPDIR=$PWD OMPI_MCA_btl=vader,self OMPI_MCA_pml=ob1 OMPI_MCA_plm_rsh_agent=false
        mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 ./ranks & job=$!
        until_ '[ -e pid ]'
        echo "rank $(cat pid)"
        tern netmon -t 60 --json -j $job --layers rank > said & netmon=$!
        until_ 'grep -q "\"unexpected_messages\":23" said && grep -q receiver-does-not-read said'
        touch go; until_ '[ -e taken ]'
        until_ 'grep -q "\"unexpected_messages\":6" said'
        kill $job; wait $job
        until_ 'grep -q "has ended" said'
        kill $netmon; cat said"#,
    ));
    let rank: i64 = text.lines().find_map(|line| line.strip_prefix("rank ")).unwrap().parse().unwrap();
    let recording = Recording::read(&text);
    let ranks = recording.objects("rank", |object| object["pid"] == rank);
    let last = |column: &str| recording.values(ranks[0], column).last().copied();
    let messages = recording.values(ranks[0], "unexpected_messages");
    assert!(messages.contains(&23) && messages.last() == Some(&6), "{messages:?}");
    let bytes = recording.values(ranks[0], "unexpected_bytes");
    assert!(bytes.contains(&(17 * 1000 + 4 * 100 + 2 * 300_000)), "{bytes:?}");
    assert_eq!((last("unexpected_bytes"), last("posted_receives")), (Some(4 * 100 + 2 * 300_000), Some(3)));
    assert_eq!(recording.findings(ranks[0])[0], "unexpected_messages receiver-does-not-read");
    assert!(recording.gone(ranks[0]).unwrap().ends_with("has ended"));
    // The other rank waits in pause(2), and has nothing.
    let others = recording.objects("rank", |object| object["pid"] != rank);
    assert!(others.iter().all(|other| recording.values(*other, "unexpected_messages") == [0]), "{text}");
}

/// MPICH has no such queues to read: that is said, and the rest goes on.
#[test]
fn a_rank_of_mpich_is_told() {
    if !["mpirun.mpich", "mpicc.mpich"].iter().all(|program| common::is_installed(program)) {
        skip::test("MPICH is not installed");
        return;
    }
    let text = on_first(&format!(
        r#"
        cat > ranks.c <<'END'{RANKS}END
        mpicc.mpich -o ranks ranks.c || exit 8
        mpirun.mpich -n 2 ./ranks & job=$!
        until_ '[ -e pid ]'
        tern netmon -t 1 --json -p $(cat pid)
        kill $job; wait $job || true"#,
    ));
    let recording = Recording::read(&text);
    let is_told = |note: &&str| note.contains("is a rank of MPICH, which does not tell its queues");
    assert_eq!(recording.notes().iter().filter(|note| is_told(note)).count(), 1, "{:?}", recording.notes());
    assert!(!recording.objects("socket", |_| true).is_empty(), "{text}");
}
