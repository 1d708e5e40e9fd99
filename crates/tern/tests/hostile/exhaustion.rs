//! A program that takes all that there is of something fails alone: its neighbours in the room
//! live, new ones are taken, and nothing of it is left with tern.

use crate::common;
use crate::support::{at_home, attacker, put, wait_for};
use lab::Lab;

const KINDS: [&str; 10] =
    ["descriptors", "files", "sockets", "pipes", "semaphores", "mappings", "processes", "threads", "stays", "keys"];

/// How many threads the room's warden has.
fn threads(lab: &Lab) -> usize {
    let is_warden = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|word| word == b"__warden")
    };
    let wardens = lab.processes("n2").unwrap().into_iter().filter(is_warden);
    wardens.map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)).max().unwrap_or(0)
}

#[test]
fn who_takes_all_of_something_harms_nobody_else() {
    let lab = common::lab_of(&common::options(2));
    put(&lab, "n1", "exhaust", &attacker("exhaust"));
    assert_eq!(at_home(&lab, "tern run --on n2 -- echo begun").text(), "begun");
    let before = threads(&lab);
    for kind in KINDS {
        let script = format!(
            "mkfifo wait; exec 9<> wait; tern run --on n2 -- cat < wait & b=$!
             tern run --on n2 -- /tmp/exhaust {kind}; echo status $?
             kill -0 $b && echo lives; tern run --on n2 -- echo runs; kill $b; wait $b; echo ended $?"
        );
        let said = at_home(&lab, &script);
        assert_eq!(said.text(), "taken\nstatus 0\nlives\nruns\nended 143", "{kind}: {}", said.errors());
    }
    // Failed before: each call for which a process should have gone home, and could not, left a
    // thread behind.
    wait_for("the warden's threads to end", || threads(&lab) <= before + 20);
}
