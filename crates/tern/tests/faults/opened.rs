//! A process that opens a file while its memory goes ahead: the empty body that was made for it does not serve then.

use crate::killed::eventually;
use lab::{Lab, Options};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const SCRIPT: &str = r#"
cd /tmp
python3 -c "
import os, time
memory = bytearray(os.urandom(8 << 20))
print('filled', flush=True)
while not os.path.exists('go'): time.sleep(0.001)
file = open('opened', 'w')
while True: time.sleep(0.01)" & pid=$!
read -r
tern move $pid n2 --how pre --max-freeze 1ms --json > leg & mover=$!
read -r
touch go
until [ -e opened ]; do sleep 0.01; done
echo opened
wait $mover && grep -o '"how": "pre' leg
echo $(($(grep -o '"frozen_bytes": [0-9]*' leg | cut -d' ' -f2) < 2000000))
kill $pid
"#;

/// It goes on, and another body is made: all of its memory would be sent while it stands still.
#[test]
fn what_went_ahead_is_not_sent_again_at_the_stop() {
    use std::io::{BufRead, BufReader, Write};
    let lab = Lab::up(env!("CARGO_BIN_EXE_tern"), &Options::new(Lab::fresh_name("faults").unwrap(), 2)).unwrap();
    let home = lab.root("n1").unwrap().join("run/tern");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut script = lab.in_node("n1", ["timeout", "-s", "KILL", "120", "bash", "-c", SCRIPT]);
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut next = script.stdin.take().unwrap();
    let mut said = BufReader::new(script.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "filled");
    std::fs::write(home.join("fault"), "round:hang").unwrap();
    next.write_all(b"\n").unwrap();
    eventually("the first round", || home.join("fault.done").exists().then_some(()));
    next.write_all(b"\n").unwrap();
    assert_eq!(said.next().unwrap(), "opened");
    std::fs::write(home.join("fault.over"), "").unwrap();
    assert_eq!(said.collect::<Vec<_>>(), ["\"how\": \"pre", "1"]);
    script.wait().unwrap();
}
