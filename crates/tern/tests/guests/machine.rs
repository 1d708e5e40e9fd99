//! The same guests on a node that is a virtual machine: another kernel, which is the oldest that is
//! supported, a poorer CPU, and a clock that is wrong.

use std::path::Path;
use std::time::Instant;

use lab::{Lab, Options};

use crate::moved::{Begin, Moves, Way, is_different, run_moved};
use crate::placed::{DIFFERENT_AT_TIMES, at_home, difference};
use crate::program::{self, Program};
use crate::run::{Scratch, arguments, complaint, run_guest};

/// What is known to differ there, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("droppable", "MAP_DROPPABLE is newer (6.11)"),
    ("process_madvise", "before Linux 6.13 a process needs a capability for advice on itself"),
    ("sched", "where there is one processor alone, who has chosen it has chosen nothing"),
    ("without_vdso", "what the kernel maps beside its code depends on its version"),
];

/// With more, the machine itself does not go on, and each guest would be waited for.
const COMPLAINTS_MAX: usize = 5;

/// A few of every kind, for the normal run.
const SOME: [&str; 10] = [
    "wall_clock",
    "clocks",
    "threads",
    "fork_after_thread",
    "wait",
    "timerfd",
    "eventfd",
    "mlock",
    "mmap_private",
    "posix_timers",
];

/// And of those, some that go on to a machine from another node.
const SOME_ONWARD: [&str; 5] = ["wall_clock", "threads32", "clocks", "float_state", "pkeys"];

/// A lab of so many other nodes and one machine, which is the last.
fn machine(nodes: u32) -> Option<Lab> {
    if let Err(missing) = lab::provide_machines() {
        skip::test(missing);
        return None;
    }
    let options = Options { machines: 1, ..Options::new(Lab::fresh_name("machine").unwrap(), nodes) };
    Some(Lab::up(env!("CARGO_BIN_EXE_tern"), &options).unwrap())
}

/// Runs each natively, and placed there; or, with a way, moved along that from its point on. How
/// many went all the way.
fn same_there(lab: &Lab, programs: &[Program], way: Option<(Begin, Way)>) -> usize {
    let (mut complaints, mut refused, mut detours) = (Vec::new(), Vec::new(), Vec::new());
    let (mut gone, mut onward) = (0, 0);
    for program in programs {
        let start = Instant::now();
        let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let native = run_guest(program, &mut at_home(lab, scratch.path(), false, arguments(program)));
        let (there, moves) = match way {
            Some((begin, way)) => run_moved(lab, program, begin, way),
            None => {
                let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
                (run_guest(program, &mut at_home(lab, scratch.path(), true, arguments(program))), Moves::default())
            }
        };
        let known = DIFFERENT.iter().chain(DIFFERENT_AT_TIMES).any(|(name, _)| *name == program.name);
        let known = known || (way.is_some() && is_different(&program.name));
        let found = complaint(program, &native).map(|c| format!("native: {c}"));
        let found = found.or_else(|| difference(program, &native, &there)).filter(|_| !known);
        found.iter().for_each(|complaint| eprintln!("{complaint}"));
        if start.elapsed().as_secs() > 10 {
            eprintln!("{}: {:.0} s", program.name, start.elapsed().as_secs_f32());
        }
        (gone, onward) = (gone + moves.done, onward + moves.onward);
        detours.extend(moves.detours.iter().map(|why| format!("{}: {why}", program.name)));
        refused.extend(moves.refused.iter().map(|why| format!("{}: {why}", program.name)));
        complaints.extend(found);
        if complaints.len() > COMPLAINTS_MAX {
            break;
        }
    }
    if way.is_some() {
        eprintln!("{gone} went {way:?}; others:\n{}", refused.join("\n"));
        eprintln!("by way of home, not straight: {}\n{}", detours.len(), detours.join("\n"));
        assert!(detours.len() * 10 <= onward, "{} of {onward} moves went by way of home", detours.len());
        assert!(gone * 100 >= (gone + refused.len()) * 80, "only {gone} were moved");
    }
    assert!(complaints.is_empty(), "{} of {}\n{}", complaints.len(), programs.len(), complaints.join("\n"));
    gone
}

#[test]
fn some_guests_do_the_same_on_a_machine() {
    let Some(lab) = machine(1) else { return };
    let programs = named(&SOME);
    same_there(&lab, &programs, None);
    for way in [(Begin::Placed, &["home", "n2", "home"] as Way), (Begin::Modest, &["n2", "home"])] {
        assert_eq!(same_there(&lab, &programs, Some(way)), programs.len());
    }
}

#[test]
fn some_guests_go_straight_to_a_machine_and_back() {
    let Some(lab) = machine(2) else { return };
    assert_eq!(same_there(&lab, &named(&SOME_ONWARD), Some((Begin::Modest, &["n2", "n3", "n2"]))), SOME_ONWARD.len());
}

fn named(names: &[&str]) -> Vec<Program> {
    let programs: Vec<Program> = program::build("").into_iter().filter(|p| names.contains(&p.name.as_str())).collect();
    assert_eq!(programs.len(), names.len());
    programs
}

#[test]
#[ignore = "every CPU instruction is emulated"]
fn guests_do_the_same_placed_on_a_machine() {
    let Some(lab) = machine(1) else { return };
    same_there(&lab, &all(), None);
}

#[test]
#[ignore = "every CPU instruction is emulated"]
fn guests_do_the_same_home_from_a_machine_and_there_again() {
    let Some(lab) = machine(1) else { return };
    same_there(&lab, &all(), Some((Begin::Placed, &["home", "n2", "home"])));
}

#[test]
#[ignore = "every CPU instruction is emulated"]
fn guests_do_the_same_moved_to_a_machine_and_home() {
    let Some(lab) = machine(1) else { return };
    same_there(&lab, &all(), Some((Begin::Modest, &["n2", "home"])));
}

#[test]
#[ignore = "every CPU instruction is emulated"]
fn guests_do_the_same_straight_to_a_machine_and_back() {
    let Some(lab) = machine(2) else { return };
    same_there(&lab, &all(), Some((Begin::Modest, &["n2", "n3", "n2"])));
}

/// All of them, or the one that `TERN_GUEST` names.
fn all() -> Vec<Program> {
    let only = std::env::var("TERN_GUEST").ok();
    program::build("").into_iter().filter(|p| only.as_ref().is_none_or(|name| *name == p.name)).collect()
}
