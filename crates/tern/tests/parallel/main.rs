//! Parallel jobs and the streams between their processes: PVM, MPICH and Open MPI from Debian,
//! unpatched, with tasks that are moved while they talk.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod causality;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod faults;
mod mpi;
mod nodes;
mod outside;
mod programs;
mod pvm;
mod recipes;
mod ring;
mod streams;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use lab::{Lab, Output};

const TOOLS: &str = include_str!("tools.sh");

/// Gives one lab of four nodes for all tests that break nothing. It goes down with the last of them
/// that runs.
pub(crate) fn shared() -> Arc<Lab> {
    static SHARED: Mutex<Weak<Lab>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let lab = Arc::new(common::lab_of(&common::options(4)));
        *shared = Arc::downgrade(&lab);
        lab
    })
}

/// Lets one test run at a time that needs the machine's processors for itself.
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a script with the tools at home, in a fresh directory that is this test's own.
pub(crate) fn at_home(lab: &Lab, script: &str) -> Output {
    at_home_within(lab, 170, script)
}

/// Does the same for a script and a job that may take this long, seconds.
pub(crate) fn at_home_within(lab: &Lab, limit_s: u32, script: &str) -> Output {
    let script = format!("limit={limit_s}; cd $(mktemp -d) && chmod 755 .\n{TOOLS}\n{script}");
    let output = lab.exec("n1", ["timeout", &limit_s.to_string(), "bash", "-c", &script]).unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", output.text(), output.errors());
    output
}
