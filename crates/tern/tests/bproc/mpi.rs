//! MPI jobs whose launcher runs at home, and whose ranks are in node-local mode: they talk over the
//! nodes' own network. The nodes have the libraries and the program.

use std::path::Path;
use std::process::Command;

use lab::Lab;

use crate::{at_home, common};

const MPICH: &str = "export UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1
    mpi() { exec mpiexec.mpich -launcher-exec /tmp/on-node-local -hosts n2,n3 -n 2 /tmp/ring \"$@\"; }";
/// Ranks that wait give the processor up: machines that test have few. A file names the launcher,
/// for the environment reaches the daemons on the nodes, and these end if it names a launcher which
/// their node lacks.
const OPEN_MPI: &str = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_mpi_yield_when_idle=1 HOME=/tmp/home
    mkdir -p $HOME/.openmpi
    echo plm_rsh_agent = /tmp/on-node-local > $HOME/.openmpi/mca-params.conf
    mpi() { exec mpiexec.openmpi --host n2,n3 -n 2 /tmp/ring \"$@\"; }";
/// The terminal's Ctrl-C, when both ranks have said that they are there.
const INTERRUPTED: &str = "set -m
    (mpi 1000 > /tmp/said 2>&1) & job=$!
    for look in $(seq 600); do [ \"$(grep -c '^rank' /tmp/said)\" = 2 ] && break; sleep 0.1; done
    kill -INT -$job; wait $job; echo status $?";

/// A lab whose nodes have this machine's libraries, and the program that `compiler` makes.
fn lab_with_ring(compiler: &str) -> Lab {
    let mut options = common::options(3);
    options.whole = true;
    let lab = common::lab_of(&options);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ring = lab.root("n1").unwrap().join("tmp/ring");
    let made = Command::new(compiler)
        .arg("-I")
        .arg(own.join("../bench/src/parallel"))
        .arg(own.join("tests/bproc/ring.c"))
        .arg("-o")
        .arg(&ring)
        .status()
        .unwrap();
    assert!(made.success());
    std::fs::copy(own.join("../../dist/on-node-local"), lab.root("n1").unwrap().join("tmp/on-node-local")).unwrap();
    for node in ["n2", "n3"] {
        std::fs::copy(&ring, lab.root(node).unwrap().join("tmp/ring")).unwrap();
        assert!(lab.exec(node, ["tern", "policy", "set", "local-by=n1"]).unwrap().status.success());
    }
    lab
}

/// `ends`: what the launcher ends with after Ctrl-C, as without tern.
fn job_runs_and_ends(compiler: &str, how: &str, ends: &[&str]) {
    if !common::is_installed(compiler) {
        return skip::test(format_args!("{compiler} is not installed"));
    }
    let lab = lab_with_ring(compiler);
    let run = |script: &str| at_home(&lab, &["bash", "-c", &format!("{how}\n{script}")]);
    let output = run("(mpi); echo status $?");
    let mut lines: Vec<String> = output.text().lines().map(str::to_owned).collect();
    lines.sort();
    let expected = ["rank 0 on n2: 200", "rank 1 on n3: 200", "status 0"];
    assert_eq!(lines, expected, "{}", output.errors());
    assert!(run("(mpi 0 7) > /dev/null; echo status $?").text().contains("status 7"));
    let no_rank_is_left = || {
        common::eventually("no rank is left", || !at_home(&lab, &["tern", "ps", "--json"]).text().contains("\"pid\""));
    };
    no_rank_is_left();
    let interrupted = run(INTERRUPTED);
    let end = interrupted.text();
    assert!(ends.contains(&end.as_str()), "{end}: {}", interrupted.errors());
    no_rank_is_left();
}

#[test]
fn ranks_of_mpich_use_the_nodes_own_network() {
    // By itself, too, this mpiexec ends with either: its proxies may hear of the signal first.
    job_runs_and_ends("mpicc.mpich", MPICH, &["status 0", "status 2"]);
}

#[test]
fn ranks_of_open_mpi_use_the_nodes_own_network() {
    job_runs_and_ends("mpicc.openmpi", OPEN_MPI, &["status 1"]);
}
