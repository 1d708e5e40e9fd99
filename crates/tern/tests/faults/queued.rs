//! A node that is slow to take what goes ahead to it from another node.

use crate::killed::eventually;
use lab::{Lab, Options};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// It says `more` all the time, and is to go from one node to the next.
const SCRIPT: &str = r#"
cd /tmp
python3 -c "
import time
memory = bytearray(8 << 20)
for at in range(0, len(memory), 4096): memory[at] = 1
while True:
    print('more', flush=True)
    time.sleep(0.01)" > said & pid=$!
tern move $pid n2 --how stop && echo away
read -r
tern move $pid n3 --how pre --json > leg && grep -o '"detour": [^,]*' leg
kill $pid
"#;

/// It runs on until what went ahead is in place: what is sent at the stop would queue behind that.
#[test]
fn what_goes_ahead_is_in_place_before_the_stop() {
    use std::io::{Read, Write};
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 3)).unwrap();
    let there = lab.root("n3").unwrap().join("run/tern");
    // Of a room's threads some are not the superuser there.
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut script = lab.in_node("n1", ["timeout", "-s", "KILL", "120", "bash", "-c", SCRIPT]);
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut next, mut said) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut away = [0; 5];
    said.read_exact(&mut away).unwrap();
    std::fs::write(there.join("fault"), "pages there:hang").unwrap();
    next.write_all(b"\n").unwrap();
    eventually("pages", || there.join("fault.done").exists().then_some(()));
    let lines = || std::fs::metadata(lab.root("n1").unwrap().join("tmp/said")).map_or(0, |said| said.len());
    let before = lines();
    // More than it says while what is sent waits in queues.
    eventually("what it says", || (lines() > before + 500).then_some(()));
    std::fs::write(there.join("fault.over"), "").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    script.wait().unwrap();
    assert_eq!((&away, &*rest), (b"away\n", "\"detour\": null\n"));
}
