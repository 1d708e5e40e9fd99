//! Jobs over several nodes, launched by the stock launchers with `on-node`, whose tasks tern moves
//! on from where the launcher put them. Each node is the home of the tasks that it was given.

use crate::alone;
use crate::cluster::{NODES, on_first, ssh_is_missing, whole};
use crate::mpi::{MPICH, OPEN_MPI};
use crate::programs::{Library, ring};
use crate::ring::Ring;

/// Starts a PVM daemon on each node, by `PVM_RSH`.
pub(crate) const MACHINE: &str = r"
export PVM_RSH=$(command -v on-node)
printf '%s\n' '* ep=/tmp' n2 n3 n4 > hosts
pvmd hosts > pvmd.out 2>&1 < /dev/null &
until_ '[ -e pvmd.0 ]'
until_ '[ $(echo conf | pvm | grep -c LINUX64) = 4 ]'
halts() { echo halt | pvm > /dev/null 2>&1; true; }
";

/// Has each node move its own tasks, and ends the job when that is over.
const REFINED: &str = r#"
until_ '[ $(everywhere "cat /tmp/job/task.*" 2> /dev/null | wc -l) = $tasks ]'
everywhere ". /tmp/tools.sh && cd /tmp/job && wander $seconds 1000 n1 n2 n3 n4 && echo moved \$moves; cat refused" > wandered
cut -d ' ' -f 1 < wandered | grep -c moved
moves=$(($(sed -n 's/^moved //p' wandered | tr '\n' '+') 0))
everywhere touch /tmp/job/end
grep -v ^moved wandered > refused
ends
"#;

fn refined(library: Library, launch: &str, seconds: u32) -> Ring {
    let lab = whole();
    let ring = ring(&lab, library, &NODES);
    let text = on_first(&lab, &format!("seconds={seconds} ring={ring}\n{launch}\n{REFINED}")).text();
    Ring::of(&text)
}

/// One PVM daemon a node; eight tasks go to nodes in turn, and are moved from there.
#[test]
fn a_virtual_machine_over_nodes_is_refined() {
    if Library::Pvm.is_missing() || ssh_is_missing() {
        return;
    }
    let _alone = alone();
    for route in ["direct", "daemon"] {
        let launch = format!("{MACHINE}\ntasks=8; job $ring 8 {route} 1,4096,65536 0");
        refined(Library::Pvm, &format!("{launch}\ntrap halts EXIT"), 5).moved(8);
    }
}

#[test]
fn mpich_over_nodes_is_refined() {
    if Library::Mpich.is_missing() || ssh_is_missing() {
        return;
    }
    let _alone = alone();
    let launch = "tasks=4; mpi -launcher-exec $(command -v on-node) -hosts n1,n2,n3,n4 -n 4 $ring 1,4096,65536 0";
    refined(Library::Mpich, &format!("{MPICH}\n{launch}"), 6).moved(2);
}

#[test]
fn open_mpi_over_nodes_is_refined() {
    if Library::OpenMpi.is_missing() || ssh_is_missing() {
        return;
    }
    let _alone = alone();
    let launch = r"
        export OMPI_MCA_plm_rsh_agent=$(command -v on-node) OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
        tasks=4; mpi -x PMIX_MCA_gds --host n1,n2,n3,n4 -n 4 $ring 1,4096,65536 0";
    refined(Library::OpenMpi, &format!("{OPEN_MPI}\n{launch}"), 6).moved(2);
}
