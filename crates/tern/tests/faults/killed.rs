//! A room that is killed while it waits for home.

use crate::program;
use lab::{Lab, Options};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The first page of a file's copy that comes to the room has it read the file, and home does not
/// answer.
const SCRIPT: &str = r#"
cd $(mktemp -d)
$1 > said 2>&1 < /dev/null & pid=$!
until [ -s said ]; do sleep 0.01; done
echo 'file content:hang' > /run/tern/fault
timeout -s KILL 40 tern move $pid n2 --how stop > moved 2>&1
kill -KILL $pid
"#;

/// A hang of a fault lasts for a minute.
const WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < WITHIN, "not within {WITHIN:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process in this node of which a thread, called so, waits where no signal reaches it.
fn stuck(lab: &Lab, node: &str, called: &str) -> Option<i32> {
    let waits = |task: &PathBuf| {
        let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(head, rest)| head.contains(called) && rest.starts_with('D'))
    };
    let tasks = |pid: &i32| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let all = lab.processes(node).unwrap();
    all.into_iter().find(|pid| tasks(pid).any(|task| waits(&task.path())))
}

/// Stayed for good before, and its node with it: the thread that waited for the file had the device
/// by which it was to come.
#[test]
fn nothing_is_left_of_it() {
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 2)).unwrap();
    let program = program(&lab);
    let mut script = lab.in_node("n1", ["bash", "-c", SCRIPT, "bash", &program]);
    let mut script = script.stdin(Stdio::null()).spawn().unwrap();
    let warden = eventually("a page waits for home", || stuck(&lab, "n2", "(cargo"));
    // SAFETY: no memory is passed; the process is the lab's, and there, for its thread cannot end.
    assert_eq!(unsafe { libc::kill(warden, libc::SIGKILL) }, 0);
    let status = PathBuf::from(format!("/proc/{warden}/status"));
    eventually("the room's end", || (!status.exists()).then_some(()));
    std::fs::write(lab.root("n1").unwrap().join("run/tern/fault.over"), "").unwrap();
    script.wait().unwrap();
    lab.down().unwrap();
}
