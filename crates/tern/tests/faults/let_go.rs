//! Closes by a process at its new place, while its last body is still to end.

use crate::told::{self, Faults, Script};

/// A program with both ends of a pipe, of which a child at home has one, too. It closes the only
/// reading end when it is told to, and says what its next write comes to.
const SCRIPT: &str = r#"
cd $(mktemp -d)
python3 -c "
import os, select, time
reader, writer = os.pipe()
parent = os.getpid()
if os.fork() == 0:
    os.close(reader)
    while os.getppid() == parent: time.sleep(0.01)
    os._exit(0)
watch = select.epoll()
watch.register(reader, select.EPOLLIN)
print('ready', flush=True)
while not os.path.exists('close'): time.sleep(0.002)
watch.close()
os.close(reader)
try: print('taken', os.write(writer, b'x'), flush=True)
except BrokenPipeError: print('broken', flush=True)
while True: time.sleep(0.01)" & pid=$!
while read -r line; do eval "$line"; done
kill $pid
"#;

/// Failed before: the steward of the room that it had left held the reading end until that room
/// said that its body had ended.
#[test]
fn a_pipe_breaks_though_the_last_body_is_still_to_end() {
    let lab = told::lab(3);
    for place in ["n3", "home"] {
        let faults = Faults::of(&lab, "n2");
        let mut script = Script::start(&lab, SCRIPT);
        assert_eq!(script.line(), "ready");
        script.tell("tern move $pid n2 --how stop > /dev/null && echo moved");
        assert_eq!(script.line(), "moved");
        faults.set("closed there:hang");
        script.tell(&format!("tern move $pid {place} --how stop > /dev/null & mover=$!; echo"));
        script.line();
        faults.await_met();
        script.tell("touch close");
        let said = script.line();
        faults.end();
        assert_eq!(said, "broken", "to {place}");
        script.tell("wait $mover; echo $?");
        assert_eq!(script.line(), "0");
        script.tell("break");
        script.rest();
    }
    lab.down().unwrap();
}
