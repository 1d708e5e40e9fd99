//! Pages that a process has left on a node, when it went over a slow link, are not sent again when it comes back.

use crate::{at_home, shared};

/// `hold WRITES`: 16 MiB of random bytes, of which it changes so many pages in each round; it checks all of them against what it wrote, in each. `field NAME` of the last move.
const TOOLS: &str = r#"
cat > hold.py <<'END'
import os, random, sys, zlib
writes, size = int(sys.argv[1]), 16 << 20
memory = bytearray(os.urandom(size))
sums = [zlib.crc32(memory[at:at + 4096]) for at in range(0, size, 4096)]
while True:
    for n in range(len(sums)):
        if zlib.crc32(memory[n * 4096:n * 4096 + 4096]) != sums[n]:
            print("page", n, "is another", flush=True)
            sys.exit(1)
    for _ in range(writes):
        n = random.randrange(len(sums))
        memory[n * 4096:n * 4096 + 8] = os.urandom(8)
        sums[n] = zlib.crc32(memory[n * 4096:n * 4096 + 4096])
    print("whole", flush=True)
END
hold() { rm -f said; python3 hold.py $1 > said 2>&1 < /dev/null & pid=$!; until_ "[ -s said ]"; }
field() { grep -o "\"$1\": [0-9]*" leg | cut -d' ' -f2; }
go() { tern move $pid "$@" --json > leg || cat leg; lines said $(($(wc -l < said) + 2)); }
most() { echo $(($(field stocked_bytes) > 12000000)) $(($(field page_bytes) < 5000000)); }
none() { echo $(($(field stocked_bytes) == 0)) $(($(field page_bytes) > 16000000)); }
"#;

/// From home, from node to node, and home again, whichever way it had left, as often as it comes.
#[test]
fn what_was_left_is_not_sent_again() {
    let lab = shared();
    let script = format!(
        r#"{TOOLS}
        hold 0
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
        hold 200
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
