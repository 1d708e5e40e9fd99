//! The guests of `guests/`: natively, and placed on a node that has nothing, with the same output
//! and the same end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod corrupted;
mod filtered;
mod machine;
mod moved;
mod mover;
mod placed;
mod program;
mod run;
mod terminal;
mod wandering;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use program::End;
use run::{Scratch, arguments, complaint, run, run_guest};
use systable::Class;

#[test]
fn guests_do_the_same_everywhere_natively() {
    let mut complaints = Vec::new();
    for program in program::build("") {
        let on = |parent: &Path| {
            let scratch = Scratch::below(parent);
            let arguments = arguments(&program);
            let mut command = Command::new(&arguments[0]);
            run_guest(&program, command.args(&arguments[1..]).current_dir(scratch.path()).env("GUEST_VALUE", "v"))
        };
        let (disk, memory) = (on(Path::new(env!("CARGO_TARGET_TMPDIR"))), on(Path::new("/dev/shm")));
        complaints.extend(complaint(&program, &disk));
        if disk != memory {
            complaints.push(format!("{}: on disk {disk:?}, in memory {memory:?}", program.name));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Served, but without a guest: said here one by one.
const WITHOUT_A_GUEST: &[&str] = &[
    // The kernel's own probes and restarts make these, never programs.
    "uretprobe",
    "uprobe",
    "restart_syscall",
    // Deliberately local: what memory nodes there are depends on the machine.
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "migrate_pages",
    "move_pages",
    "set_mempolicy_home_node",
    // Newer than the oldest kernel that is supported, or not in every kernel: a guest could not say
    // the same everywhere.
    "cachestat",
    "fchmodat2",
    "map_shadow_stack",
    "futex_wake",
    "futex_wait",
    "futex_requeue",
    "mseal",
    "setxattrat",
    "getxattrat",
    "listxattrat",
    "removexattrat",
    "file_getattr",
    "file_setattr",
    "memfd_secret",
    "process_mrelease",
];

#[test]
fn every_served_call_has_a_guest() {
    let programs = program::build("");
    assert!(programs.len() >= 60);
    let covered: BTreeSet<&str> = programs.iter().flat_map(|p| p.calls.iter().map(String::as_str)).collect();
    let known = |name: &&str| systable::number(name).is_some();
    assert_eq!(covered.iter().copied().filter(|name| !known(name)).collect::<Vec<_>>(), Vec::<&str>::new());
    let served = |row: &&systable::Row| !matches!(row.class, Class::Unused | Class::GoHome(_) | Class::Refused(_));
    let missing: Vec<&str> = systable::TABLE
        .iter()
        .filter(served)
        .map(|row| row.name)
        .filter(|name| !covered.contains(name) && !WITHOUT_A_GUEST.contains(name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "served rows without a guest");
    let needless: Vec<_> = WITHOUT_A_GUEST.iter().filter(|name| covered.contains(**name) || !known(name)).collect();
    assert_eq!(needless, Vec::<&&str>::new(), "said to have no guest");
}

#[test]
fn attacks_are_not_made_natively() {
    let attacks = program::build("attacks");
    assert!(attacks.len() >= 15);
    for attack in attacks {
        let outcome = run(Command::new(&attack.binary).env_remove("TERN_ATTACK"));
        assert_eq!((outcome.end, outcome.stdout.as_str()), (End::Exit(99), "refused: not placed\n"), "{}", attack.name);
    }
}
