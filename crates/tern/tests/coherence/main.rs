//! Files that home and rooms use at the same time: one history for all, whatever is behind, and
//! whatever dies.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
#[path = "../common/mod.rs"]
mod common;
mod full;
mod lost;
mod model;
mod random;
mod trees;

use lab::{Lab, Output};

/// Runs a script as root on n1, in a fresh directory, with a limit in seconds.
fn at_home(lab: &Lab, limit_s: u32, script: &str) -> Output {
    let script = format!("cd $(mktemp -d)\n{script}");
    lab.exec("n1", ["timeout", &limit_s.to_string(), "bash", "-c", &script]).unwrap()
}
