//! What a room says before it is waited for.

use crate::killed::eventually;
use lab::{Lab, Options};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const SCRIPT: &str = r#"
mkdir /tmp/early && cd /tmp/early
python3 -c "
import os, time
pages = bytearray(b'a' * (1 << 20))
open('begun', 'w').close()
while not os.path.exists('end'): time.sleep(0.005)
print(pages.count(b'a'), 'bytes')" & pid=$!
until [ -e begun ]; do sleep 0.01; done
tern move $pid n2 && echo away
read -r
tern move $pid n3 --how post & mover=$!
wait $pid; echo "end $?"
read -r
wait $mover; echo "move $?"
"#;

/// Its room sends what follows.
fn lends(lab: &Lab) -> bool {
    let tasks = |pid: i32| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let is_it = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "leaving")
    };
    lab.processes("n2").unwrap().into_iter().flat_map(tasks).any(is_it)
}

/// The process ends as soon as it runs on the next node, before its old steward has heard that it
/// was taken there: no page follows any more, and the room that it left says so. (That was heard
/// and forgotten, and the move waited for it for ever: of a redis server that was told to end.)
#[test]
fn nothing_follows_before_it_is_known_to_be_there() {
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 3)).unwrap();
    let here = lab.root("n1").unwrap();
    let run = here.join("run/tern");
    // Of a steward's threads some are not the superuser there.
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut script = lab.in_node("n1", ["timeout", "-s", "KILL", "60", "bash", "-c", SCRIPT]);
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut next = script.stdin.take().unwrap();
    let mut said = script.stdout.take().unwrap();
    let mut away = [0; 5];
    said.read_exact(&mut away).unwrap();
    std::fs::write(run.join("fault"), "resumed:hang").unwrap();
    next.write_all(b"\n").unwrap();
    eventually("the commit point", || run.join("fault.done").exists().then_some(()));
    assert!(lends(&lab));
    std::fs::write(here.join("tmp/early/end"), "").unwrap();
    eventually("the end of what follows", || (!lends(&lab)).then_some(()));
    std::fs::write(run.join("fault.over"), "").unwrap();
    next.write_all(b"\n").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    script.wait().unwrap();
    assert_eq!((&away, rest.as_str()), (b"away\n", "1048576 bytes\nend 0\nmove 0\n"));
}
