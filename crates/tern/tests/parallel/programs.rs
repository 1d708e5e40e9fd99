//! The C programs of the tests. The benchmarks run the same ones (`crates/bench/src/parallel/`).

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::Lab;

/// The library of a ring of processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Library {
    Pvm,
    Mpich,
    OpenMpi,
}

impl Library {
    fn source(self) -> &'static str {
        if self == Library::Pvm { "ring_pvm.c" } else { "ring_mpi.c" }
    }

    fn compiler(self) -> &'static str {
        match self {
            Library::Pvm => "cc",
            Library::Mpich => "mpicc.mpich",
            Library::OpenMpi => "mpicc.openmpi",
        }
    }

    /// Tells whether this machine can compile and run the ring; leaves the test out if not.
    pub(crate) fn is_missing(self) -> bool {
        let needed = match self {
            Library::Pvm => "pvm_gstat",
            Library::Mpich => "mpicc.mpich",
            Library::OpenMpi => "mpicc.openmpi",
        };
        let missing = !crate::common::is_installed(needed);
        if missing {
            skip::test(format_args!("{needed} is not installed"));
        }
        missing
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/src/parallel").join(name)
}

/// Compiles the ring, and puts it into these nodes. Gives its path there.
pub(crate) fn ring(lab: &Lab, library: Library, nodes: &[&str]) -> String {
    let to = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = to.path().join("ring");
    let mut command = Command::new(library.compiler());
    command.args(["-O1", "-o"]).arg(&program).arg(source(library.source()));
    if library == Library::Pvm {
        command.arg("-lpvm3");
    }
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(program).unwrap();
    let path = format!("/tmp/ring-{library:?}");
    nodes.iter().for_each(|node| put(lab, node, &path, &bytes));
    path
}

/// Writes an executable file of a node, unless the node has it already.
pub(crate) fn put(lab: &Lab, node: &str, path: &str, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    let there = lab.root(node).unwrap().join(&path[1..]);
    if std::fs::read(&there).is_ok_and(|present| present == bytes) {
        return;
    }
    // Another test may run the file at this moment.
    let draft = there.with_extension(format!("draft-{:?}", std::thread::current().id()));
    std::fs::write(&draft, bytes).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(draft, there).unwrap();
}
