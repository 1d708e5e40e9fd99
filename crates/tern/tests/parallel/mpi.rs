//! MPI at home: ranks of MPICH and of Open MPI that begin at home and are moved while they talk.
//!
//! Ranks talk over TCP, because memory in common keeps processes on one machine.

use crate::programs::{Library, ring};
use crate::ring::Ring;
use crate::{alone, at_home, at_home_within, shared};

/// How MPICH is started: over TCP also within a machine.
pub(crate) const MPICH: &str = r"
export UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1
mpi() { job mpiexec.mpich $@; }
";

/// How Open MPI is started: over TCP also within a machine, with as many ranks as wished, and
/// without the files that its runtime (PMIx) and its test of shared memory share between ranks.
pub(crate) const OPEN_MPI: &str = r"
export PMIX_MCA_gds=hash OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_shmem=mmap
mpi() { job mpiexec.openmpi --oversubscribe $@; }
";

fn ring_moves(library: Library, how: &str, seconds: u32) {
    if library.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, library, &["n1"]);
    let text = at_home_within(
        &lab,
        170 + 10 * seconds,
        &format!(
            "{how}
        mpi -n 8 {ring} 1,4096,65536 0
        has_begun 8; goes_on
        wander {seconds} 1000 n2 n3 n4 home
        goes_on; ends"
        ),
    )
    .text();
    // Ranks wait busily: eight of them leave little of a small machine to moves.
    Ring::of(&text).moved(3);
}

#[test]
fn ranks_of_mpich_move() {
    ring_moves(Library::Mpich, MPICH, 10);
}

#[test]
fn ranks_of_open_mpi_move() {
    ring_moves(Library::OpenMpi, OPEN_MPI, 10);
}

#[test]
#[ignore = "a minute: --full"]
fn ranks_of_mpich_move_for_a_minute() {
    ring_moves(Library::Mpich, MPICH, 60);
}

#[test]
#[ignore = "a minute: --full"]
fn ranks_of_open_mpi_move_for_a_minute() {
    ring_moves(Library::OpenMpi, OPEN_MPI, 60);
}

/// Ranks of Open MPI that are moved before they connect to each other. Open MPI keeps the flags of
/// an accepted connection in 16 bits with a sign: with O_LARGEFILE among them, it closes the
/// connection, and the job hangs. So that flag must not show where home does not show it.
#[test]
fn ranks_of_open_mpi_connect_after_they_have_moved() {
    if Library::OpenMpi.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, Library::OpenMpi, &["n1"]);
    let text = at_home(
        &lab,
        &format!(
            "{OPEN_MPI}
        touch hold late
        mpi -n 3 {ring} 4096 0
        has_begun 3
        tern move $(cat task.0) n2 && tern move $(cat task.1) n3 && tern move $(cat task.2) n4 || exit 1
        rm hold; goes_on; moves=3; touch refused; ends"
        ),
    )
    .text();
    Ring::of(&text).moved(3);
}

/// Open MPI as Debian has it shares files between its ranks: they stay at home, tern names the
/// file, and the ring goes on.
#[test]
fn ranks_of_open_mpi_that_share_files_stay() {
    if Library::OpenMpi.is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), shared());
    let ring = ring(&lab, Library::OpenMpi, &["n1"]);
    let text = at_home(
        &lab,
        &format!(
            "{OPEN_MPI}
        unset PMIX_MCA_gds
        mpi -n 2 {ring} 4096 0
        has_begun 2; goes_on
        wander 1 10 n2 n3
        goes_on; ends"
        ),
    )
    .text();
    assert_eq!(Ring::of(&text).moves, 0, "{text}");
    assert!(text.contains("mapped shared and writable"), "{text}");
}
