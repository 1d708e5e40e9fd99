//! Moves over a link that others use too, or that is slow: packed, limited, and behind what others
//! send.

use lab::{Lab, Options};

use crate::{at_home, common, shared};

/// `hold KIND MB`: a process with memory that packs well or not at all, and looks at it all the
/// time; `go` moves it, when all of that is another than where it was before; `field NAME` of the
/// last move.
const TOOLS: &str = r#"
cat > hold.py <<'END'
import hashlib, os, signal, sys, time
size = int(sys.argv[2]) << 20
memory = bytearray(size)
wanted, made = 1, 0
def more(*_):
    global wanted
    wanted += 1
signal.signal(signal.SIGUSR1, more)
while True:
    if made < wanted:
        made += 1
        first = made << 32
        memory[:] = os.urandom(size) if sys.argv[1] == "random" else b"".join(b"%015d\n" % n for n in range(first, first + size // 16))
        digest = hashlib.sha1(memory).digest()
        print("made", made, flush=True)
    assert hashlib.sha1(memory).digest() == digest
    print("whole", flush=True)
    time.sleep(0.1)
END
hold() { rm -f said; made=1; python3 hold.py $1 $2 > said 2>&1 < /dev/null & pid=$!; until_ "grep -q whole said"; }
anew() { made=$((made + 1)); kill -USR1 $pid; until_ "grep -q '^made $made$' said"; }
field() { grep -o "\"$1\": [0-9]*" leg | cut -d' ' -f2; }
go() { anew; tern move $pid "$@" --json > leg || cat leg; lines said $(($(wc -l < said) + 2)); }
"#;

fn limited(rate_bits: u64) -> Lab {
    common::lab_of(&Options { rate_bits: Some(rate_bits), ..common::options(2) })
}

/// What packs well goes packed, both ways, whichever way it goes; random bytes cost next to nothing
/// more. The link is slower than the compressor, however busy this machine is.
#[test]
fn a_slow_link_carries_packed_pages() {
    let lab = limited(25_000_000);
    let script = format!(
        r#"{TOOLS}
        packs() {{
            wire=$(field wire_bytes); pages=$(field page_bytes)
            found="$((wire * 3 < pages)) $((wire * 100 < pages * 102))"; echo $found
            [ "$found" = "$1" ] || echo "$wire of $pages bytes"
        }}
        hold text 12; well="1 1"; badly="0 1"
        go n2 --how stop; packs "$well"; go home --how stop; packs "$well"; go n2 --how pre --max-freeze 5ms; packs "$well"
        go home --how post; packs "$well"; go n2 --how post; packs "$well"; kill $pid
        hold random 4; go n2 --how stop; packs "$badly"; go home --how stop; packs "$badly"; kill $pid"#
    );
    assert_eq!(at_home(&lab, &script).text(), format!("{}0 1\n0 1", "1 1\n".repeat(5)));
}

/// The user's rate, and the owner's, whichever is less.
#[test]
fn rates_are_kept_to() {
    let lab = shared();
    let script = format!(
        r#"{TOOLS}
        slow() {{ echo $(($(field total_us) > 1500000)); }}
        hold random 8
        go n2 --how stop --rate 5M; slow; go home --how stop --rate 5M; slow; go n2 --how pre --max-freeze 5ms --rate 5M; slow
        go home --how post --rate 5M; slow
        tern policy set move_rate_kb_s=5000; go n2 --how stop --rate 1G; slow; tern policy set move_rate_kb_s=0; kill $pid
        for bad in 5 -1M 99k x; do tern move $pid n2 --rate=$bad 2>&1 | grep -c 'bytes each second from 100k to 1000G'; done"#
    );
    assert_eq!(at_home(&lab, &script).text().replace('\n', ""), "111111111");
}

/// What goes at once is what is wished, whichever way it goes: the headers of the frames tell.
#[test]
fn buffers_are_kept_to() {
    let lab = shared();
    let script = format!(
        r#"{TOOLS}
        over() {{ echo $((($(field wire_bytes) - $(field page_bytes)) * 10000 / $(field page_bytes))); }}
        hold random 8
        for buffer in 1k 4k 1M; do
            for way in "n2 --how stop" "n3 --how stop" "home --how stop" "n2 --how pre --max-freeze 5ms" "n3 --how pre --max-freeze 5ms" "home --how post" "n2 --how post"; do
                go $way --buffer $buffer; over
            done
            go home --how stop
        done
        kill $pid
        for bad in 5 0k 5k 2M -1k x; do tern move $pid n2 --buffer=$bad 2>&1 | grep -c 'bytes that go at once from 1k to 1M'; done"#
    );
    let text = at_home(&lab, &script).text();
    let numbers: Vec<i64> = text.lines().map(|n| n.parse().unwrap()).collect();
    assert_eq!((numbers.len(), &numbers[21..]), (27, &[1; 6][..]), "{text}");
    // 24 bytes before each 1024, or 4096. What packs while this machine is busy only takes away
    // from it: the most tells.
    let [small, page, large] =
        [0, 7, 14].map(|first| numbers[first..first + 7].iter().max().copied().unwrap_or_default());
    assert!(small > page + 80 && page > large + 20, "{text}");
}

/// Another guest's calls go on while the link is full. Failed once: they waited for all that lay in
/// the socket, 0.6 s each.
#[test]
fn others_go_first() {
    let lab = limited(100_000_000);
    let script = format!(
        r#"{TOOLS}
        cat > calls.py <<'END'
import os, signal, time
calls = 0
signal.signal(signal.SIGUSR1, lambda *_: print(calls, flush=True))
print("up", flush=True)
while True:
    os.getpgid(os.getppid())
    calls += 1
    time.sleep(0.002)
END
        tern run --on n2 -- python3 calls.py > counts < /dev/null & caller=$!
        lines counts 1
        hold random 32
        kill -USR1 $caller; lines counts 2
        tern move $pid n2 --how stop --json > leg
        kill -USR1 $caller; lines counts 3
        echo $(($(sed -n 3p counts) - $(sed -n 2p counts))) $(field total_us)
        kill $pid $caller"#
    );
    let text = at_home(&lab, &script).text();
    let numbers: Vec<f64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert!(numbers[1] > 2e6 && numbers[0] / (numbers[1] / 1e6) > 5.0, "{text}");
}
