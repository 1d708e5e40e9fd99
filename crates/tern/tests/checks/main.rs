//! Placed programs against their home: identity, signals, cores, standard descriptors, users,
//! several homes, lost writes, processes that die.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod cores;
mod death;
mod faults;
mod identity;
mod proc;
mod streams;
mod terminal;
mod users;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Lab, Output};

/// Long enough for anything on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Not the interpreter of a version manager, which is a script that forks.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// One lab of three nodes for all tests that break nothing; it goes down with the last of them that
/// runs.
pub(crate) fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(common::lab_of(&common::options(3)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// How many processes of this name run on a node and in the rooms that it hosts.
pub(crate) fn count(lab: &Lab, node: &str, name: &str) -> usize {
    let named = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    lab.processes(node).unwrap().iter().filter(|pid| named(pid)).count()
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Runs a script at home, in a fresh directory that is this test's own; `placed` in it stands for
/// `tern run --on n2 --`.
pub(crate) fn at_home(lab: &Lab, script: &str) -> Output {
    let script = script.replace("placed ", "tern run --on n2 -- ");
    let script = format!("cd $(mktemp -d) && chmod 755 .\n{script}");
    let output = lab.exec("n1", ["timeout", "60", "sh", "-c", &script]).unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
    output
}

/// Puts a file into a node; its path there.
pub(crate) fn put(lab: &Lab, node: &str, name: &str, content: &[u8]) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = format!("/tmp/{name}");
    let there = lab.root(node).unwrap().join(&path[1..]);
    std::fs::write(&there, content).unwrap();
    std::fs::set_permissions(there, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Compiles a C program that needs no libraries where it runs.
pub(crate) fn compiled(name: &str, source: &str) -> Vec<u8> {
    let place = |ending: &str| {
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}{ending}", std::process::id()))
    };
    let (from, to) = (place(".c"), place(""));
    std::fs::write(&from, source).unwrap();
    let done = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&to).arg(&from).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(&to).unwrap();
    std::fs::remove_file(from).unwrap();
    std::fs::remove_file(to).unwrap();
    bytes
}
