//! One process space as BProc had it: node-local mode, and commands on many nodes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admin;
#[path = "../common/mod.rs"]
mod common;
mod dump;
mod libtern;
mod local;
mod many;
mod mpi;
mod sh;
mod tools;
mod tree;

use std::path::Path;
use std::process::Command;

use lab::{Lab, Output};

/// Ends a command that hangs, so that its test fails.
const LIMITED: [&str; 4] = ["timeout", "--foreground", "--signal=KILL", "120"];

/// A lab whose nodes let n1's processes use what is their own.
fn lab(nodes: u32) -> Lab {
    let lab = common::lab_of(&common::options(nodes));
    for node in 2..=nodes {
        let set = lab.exec(&format!("n{node}"), ["tern", "policy", "set", "local-by=n1"]).unwrap();
        assert!(set.status.success(), "{}", set.errors());
    }
    lab
}

/// Runs a command at home, to its end.
fn at_home(lab: &Lab, argv: &[&str]) -> Output {
    lab.exec("n1", [&LIMITED[..], argv].concat()).unwrap()
}

/// `tern run --local --on NODE -- ARGV` at home, to its end.
fn local(lab: &Lab, node: &str, argv: &[&str]) -> Output {
    at_home(lab, &[&["tern", "run", "--local", "--on", node, "--"], argv].concat())
}

/// Builds a program of this suite below /tmp of n1, under its own name.
fn build(lab: &Lab, name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bproc").join(format!("{name}.c"));
    let path = format!("/tmp/{name}");
    let program = lab.root("n1").unwrap().join(path.trim_start_matches('/'));
    let built = Command::new("gcc").args(["-O1", "-Wall", "-o"]).args([&program, &source]).status().unwrap();
    assert!(built.success());
    path
}
