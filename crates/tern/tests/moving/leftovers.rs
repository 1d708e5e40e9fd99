//! Pages that a process has left on a node, when it went over a slow link, are not sent again when
//! it comes back.

use crate::holding::TOOLS;
use crate::{at_home, shared};

/// Most of the process was there, or nothing of it.
const SEEN: &str = r#"
most() { echo $(($(field stocked_bytes) > 12000000)) $(($(field page_bytes) < 5000000)); }
none() { echo $(($(field stocked_bytes) == 0)) $(($(field page_bytes) > 16000000)); }
"#;

/// From home, from node to node, and home again, whichever way it had left, as often as it comes.
#[test]
fn what_was_left_is_not_sent_again() {
    let lab = shared();
    let script = format!(
        r#"{TOOLS}{SEEN}
        hold memory 16 0 1
        go n2 --how stop --rate 150M; none; go home --how stop --rate 150M; most
        go n2 --how stop --rate 150M; most; go home --how pre --max-freeze 5ms --rate 150M; most
        go n2 --how pre --max-freeze 5ms; most; go n3 --how pre --max-freeze 5ms --rate 150M; none
        go n2 --how pre --max-freeze 5ms --rate 150M; most; go n3 --how pre --max-freeze 5ms --rate 150M; most
        go home --how post --rate 150M; go n3 --how stop; most; go home --how stop; go n2 --how stop; most; kill $pid"#
    );
    assert_eq!(at_home(&lab, &script).text(), ["1 1"; 10].join("\n"));
}

/// What was written since is sent: no page is ever that of an earlier stay.
#[test]
fn what_was_written_since_is_sent() {
    let lab = shared();
    let script = format!(
        r#"{TOOLS}
        hold memory 16 200 4096
        for round in 1 2 3 4; do
            for way in "n2 --how pre" "n3 --how auto" "n2 --how auto" "home --how stop" "n3 --how stop" "home --how pre"; do
                go $way --max-freeze 5ms --rate 150M
                echo $(field stocked_bytes) >> stocked
            done
        done
        kill $pid; sort said | uniq -c | wc -l; echo $(($(grep -vc '^0$' stocked) > 8))"#
    );
    assert_eq!(at_home(&lab, &script).text(), "1\n1");
}
