//! A signal for a program whose room is not made yet.

use crate::told::{self, Faults, Script};

const SCRIPT: &str = r#"
read -r
tern run --on n2 -- sleep 1000 & pid=$!
until tern ps | grep -q 'sleep 1000'; do sleep 0.01; done
kill $pid
tern ps > /dev/null
echo told
wait $pid
echo $?
"#;

/// It is told when it runs.
#[test]
fn what_is_told_before_the_room_stands_is_not_lost() {
    let lab = told::lab(2);
    let (faults, mut script) = (Faults::of(&lab, "n1"), Script::start(&lab, SCRIPT));
    faults.set("room:hang");
    script.go_on();
    faults.await_met();
    assert_eq!(script.line(), "told");
    faults.end();
    assert_eq!(script.rest(), ["143"]);
}
