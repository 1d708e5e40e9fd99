//! A process that opens a file while its memory goes ahead: the empty body that was made for it
//! does not serve then.

use crate::told::{self, Faults, Script};

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
    let lab = told::lab(2);
    let (faults, mut script) = (Faults::of(&lab, "n1"), Script::start(&lab, SCRIPT));
    assert_eq!(script.line(), "filled");
    faults.set("round:hang");
    script.go_on();
    faults.await_met();
    script.go_on();
    assert_eq!(script.line(), "opened");
    faults.end();
    assert_eq!(script.rest(), ["\"how\": \"pre", "1"]);
}
