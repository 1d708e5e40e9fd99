//! `tern cosched` and `tern gang` on real jobs: PVM and MPI from Debian, and programs that compute.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod gang;
mod jobs;
mod moved;
mod nodes;
#[path = "../parallel/programs.rs"]
#[allow(dead_code, reason = "these tests use a part")]
mod programs;
#[path = "../parallel/ring.rs"]
#[allow(dead_code, reason = "these tests use a part")]
mod ring;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lab::{Lab, Options};

const TOOLS: &str = include_str!("tools.sh");

/// Gives one lab of a node without a daemon. The lab goes down with the last test that uses it.
fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(common::lab_of(&Options { daemons: false, ..common::options(1) }));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// Lets one test run at a time: root has one agent on a node.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a script with the tools on the one node of the lab, in a fresh directory that is this
/// test's own.
fn run(script: &str) -> String {
    let script = format!("set -e; cd $(mktemp -d) && chmod 755 .\n{TOOLS}\n{script}");
    let output = shared().exec("n1", ["timeout", "170", "bash", "-c", &script]).unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
    output.text()
}
