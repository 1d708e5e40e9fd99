//! The same guests on a node that is a virtual machine: another kernel, which is the oldest that is supported, a poorer CPU, and a clock that is wrong.

use std::path::Path;
use std::time::Instant;

use lab::{Lab, Options};

use crate::placed::{DIFFERENT_AT_TIMES, at_home, difference};
use crate::program::{self, Program};
use crate::run::{Scratch, arguments, complaint, run_guest};

/// What is known to differ there, and why.
const DIFFERENT: &[(&str, &str)] =
    &[("epoll", "files of a FUSE file system can be watched by epoll, which says EPERM for others")];

/// A few of every kind, for the normal run.
const SOME: [&str; 8] =
    ["wall_clock", "clocks", "threads", "fork_after_thread", "wait", "timerfd", "mmap_private", "posix_timers"];

fn machine() -> Option<Lab> {
    if let Err(missing) = lab::machines_available() {
        eprintln!("left out: {missing}");
        return None;
    }
    let options = Options { machines: 1, ..Options::new(Lab::fresh_name("machine").unwrap(), 1) };
    Some(Lab::up(env!("CARGO_BIN_EXE_tern"), &options).unwrap())
}

fn placed_on(lab: &Lab, programs: &[Program]) {
    let mut complaints = Vec::new();
    for program in programs {
        let start = Instant::now();
        let once = |placed: bool| {
            let scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
            let tern = ["/run/lab/bin/tern", "run", "--on", "n2", "--any-cpu", "--"].map(String::from);
            let command = if placed { [tern.to_vec(), arguments(program)].concat() } else { arguments(program) };
            run_guest(program, &mut at_home(lab, scratch.path(), false, command))
        };
        let (native, placed) = (once(false), once(true));
        let known = DIFFERENT.iter().chain(DIFFERENT_AT_TIMES).any(|(name, _)| *name == program.name);
        let found = complaint(program, &native).map(|c| format!("native: {c}"));
        let found = found.or_else(|| difference(program, &native, &placed)).filter(|_| !known);
        found.iter().for_each(|complaint| eprintln!("{complaint}"));
        if start.elapsed().as_secs() > 10 {
            eprintln!("{}: {:.0} s", program.name, start.elapsed().as_secs_f32());
        }
        complaints.extend(found);
    }
    assert!(complaints.is_empty(), "{} of {}\n{}", complaints.len(), programs.len(), complaints.join("\n"));
}

#[test]
fn some_guests_do_the_same_placed_on_a_machine() {
    let Some(lab) = machine() else { return };
    let programs: Vec<Program> = program::build("").into_iter().filter(|p| SOME.contains(&p.name.as_str())).collect();
    assert_eq!(programs.len(), SOME.len());
    placed_on(&lab, &programs);
}

#[test]
#[ignore = "every CPU instruction is emulated"]
fn guests_do_the_same_placed_on_a_machine() {
    let Some(lab) = machine() else { return };
    let only = std::env::var("TERN_GUEST").ok();
    let programs: Vec<Program> =
        program::build("").into_iter().filter(|p| only.as_ref().is_none_or(|name| *name == p.name)).collect();
    placed_on(&lab, &programs);
}
