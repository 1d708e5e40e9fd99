//! A node that is slow to take what goes ahead to it from another node.

use crate::killed::eventually;
use crate::told::{self, Faults, Script};

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
    let lab = told::lab(3);
    let (faults, mut script) = (Faults::of(&lab, "n3"), Script::start(&lab, SCRIPT));
    assert_eq!(script.line(), "away");
    faults.set("pages there:hang");
    script.go_on();
    faults.await_met();
    let lines = || std::fs::metadata(lab.root("n1").unwrap().join("tmp/said")).map_or(0, |said| said.len());
    let before = lines();
    // More than it says while what is sent waits in queues.
    eventually("what it says", || (lines() > before + 500).then_some(()));
    faults.end();
    assert_eq!(script.rest(), ["\"detour\": null"]);
}
