//! Moves that take long: how far they are, and what an interrupt means.

use lab::{Lab, Options};

use crate::{at_home, common};

/// Memory that a link of 5 MB/s carries for some seconds; every line proves that it is whole.
/// `anew`: all of it is another.
const HOLDER: &str = r#"
cat > holder.py <<'END'
import hashlib, os, signal, time
memory = bytearray(16 << 20)
wanted, made = 1, 0
def more(*_):
    global wanted
    wanted += 1
signal.signal(signal.SIGUSR1, more)
while True:
    if made < wanted:
        made += 1
        memory[:] = os.urandom(len(memory))
        digest = hashlib.sha1(memory).digest()
        print("made", made, flush=True)
    assert hashlib.sha1(memory).digest() == digest
    print("whole", flush=True)
    time.sleep(0.02)
END
python3 holder.py > said 2>&1 < /dev/null & pid=$!
until_ "grep -q whole said"; made=1
anew() { made=$((made + 1)); kill -USR1 $pid; until_ "grep -q '^made $made$' said"; }
runs_on() { lines said $(($(wc -l < said) + 2)); tern ps | awk -v pid=$pid '$1 == pid { print $3 }' | grep . || echo home; }
"#;

fn limited() -> Lab {
    common::lab_of(&Options { rate_bits: Some(40_000_000), ..common::options(2) })
}

/// What is sent grows, what is left shrinks; it is said at the same time how fast.
#[test]
fn how_far_a_move_is() {
    let lab = limited();
    let script = format!(
        r#"{HOLDER}
        tern move $pid n2 --how stop --progress 2> far || cat far
        sed -n 's/.*"stage":"still","sent_bytes":\([0-9]*\),"left_bytes":\([0-9]*\),"bytes_per_s":\([0-9]*\).*/\1 \2 \3/p' far
        runs_on; kill $pid"#
    );
    let text = at_home(&lab, &script).text();
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.pop(), Some("n2"), "{text}");
    let numbers = |line: &&str| line.split(' ').map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let told: Vec<Vec<u64>> = lines.iter().map(numbers).collect();
    assert!(told.len() >= 2, "{text}");
    assert!(told.windows(2).all(|w| w[0][0] < w[1][0] && w[0][1] > w[1][1]), "{text}");
    // 5 MB/s; what lies in buffers counts as sent.
    assert!(told.iter().skip(1).all(|t| (100_000..30_000_000).contains(&t[2])), "{text}");
}

/// Before the commit point an interrupt leaves the process where it was, both ways; then it can be
/// moved as ever.
#[test]
fn an_interrupt_calls_it_off() {
    let lab = limited();
    let script = format!(
        r#"{HOLDER}
        interrupted() {{
            rm -f far; env --default-signal=INT tern move $pid "$@" --progress 2> far & mover=$!
            until_ "grep -q sent_bytes far"; kill -INT $mover; wait $mover; echo $? $(grep -o "it runs where it was" far) on $(runs_on)
        }}
        interrupted n2 --how stop; interrupted n2 --how pre --max-freeze 1ms; interrupted n2
        tern move $pid n2; runs_on; anew
        interrupted home --how stop
        tern move $pid home; runs_on; kill $pid"#
    );
    let text = at_home(&lab, &script).text();
    let off = |at: &str| format!("1 it runs where it was on {at}\n");
    assert_eq!(text, format!("{}n2\n{}home", off("home").repeat(3), off("n2")));
}

/// When the process runs at its new place, its memory goes on following.
#[test]
fn an_interrupt_does_not_part_a_process_from_its_memory() {
    let lab = limited();
    let script = format!(
        r#"{HOLDER}
        env --default-signal=INT tern move $pid n2 --how post --progress 2> far & mover=$!
        until_ "grep -q follows far"; kill -INT $mover; wait $mover; echo $? $(grep -c "continues to follow" far)
        runs_on
        until_ "tern move $pid home --how stop 2> /dev/null"
        runs_on; kill $pid"#
    );
    assert_eq!(at_home(&lab, &script).text(), "0 1\nn2\nhome");
}

/// What is shown is what the link took: of memory that goes packed, less than there is. (Failed
/// before: it showed twice the rate.)
#[test]
fn what_is_shown_keeps_to_the_rate() {
    let script = r#"
        python3 -c 'import os, time; memory = os.urandom(12 << 20).hex(); print("made", flush=True); time.sleep(1000)' > said & pid=$!
        lines said 1; tern move $pid n2 --how stop --rate 4M --progress 2> far || cat far; kill $pid
        sed -n 's/.*"bytes_per_s":\([0-9]*\).*/\1/p' far"#;
    let text = at_home(&crate::shared(), script).text();
    let rates: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(rates.len() >= 2 && rates.iter().all(|rate| *rate < 6_000_000), "{text}");
    assert!(rates.iter().any(|rate| *rate > 1_000_000), "{text}");
}
