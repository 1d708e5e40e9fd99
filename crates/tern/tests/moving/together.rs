//! Processes away that share memory with each other come home together.

use crate::{at_home, shared};

/// A program that counts in memory that it shares with its children: each in a slot of its own, and all in one under a lock. At the end it prints what must be.
const COUNTERS: &str = r#"
import mmap, os, struct, sys, time, multiprocessing
m = mmap.mmap(-1, 8192)
lock = multiprocessing.Lock()
def add(slot):
    m[8 * slot:8 * slot + 8] = struct.pack("q", struct.unpack("q", m[8 * slot:8 * slot + 8])[0] + 1)
def get(slot): return struct.unpack("q", m[8 * slot:8 * slot + 8])[0]
def count(slot):
    n = 0
    while not os.path.exists("end"):
        n += 1; add(slot)
        with lock: add(700)
        time.sleep(0.001)
    return n
children = []
for slot in (1, 2):
    child = os.fork()
    if child == 0:
        n = count(slot); os._exit(0 if n == get(slot) else 1)
    children.append(child)
print(*children, flush=True)
n = count(0)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print("right" if codes == [0, 0] and get(0) == n and get(700) == sum(map(get, range(3))) else
      "wrong %r %r %r %r" % (codes, n, get(700), [get(i) for i in range(3)]), flush=True)
"#;

/// A file of home's mapped shared and writable brings a process home, and with it the child with which it shares memory; they share it still.
#[test]
fn a_call_brings_both() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > probe.py <<'END'
import mmap, os, time
m = mmap.mmap(-1, 4096)
child = os.fork()
if child == 0:
    while m[1] == 0: m[0] = (m[0] + 1) % 251; time.sleep(0.001)
    m[2] = m[1] + 1; os._exit(7)
while m[0] == 0: time.sleep(0.001)
with open("file", "w+b") as f:
    f.truncate(4096); s = mmap.mmap(f.fileno(), 4096)
s[0:2] = b"ok"; s.flush()
before = m[0]
while m[0] == before: time.sleep(0.001)
print("counts", child, flush=True)
while not os.path.exists("go"): time.sleep(0.01)
m[1] = 5; print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), m[2])
END
        tern run --on n2 -- python3 probe.py > said 2>&1 & pid=$!
        lines said 1; child=$(cut -d' ' -f2 said); head -c2 file; echo
        tern ps | awk -v a=$pid -v b=$child '$1 == a || $1 == b { print "away on", $3 }'
        touch go; wait $pid; tail -1 said"#,
    )
    .text();
    assert_eq!(text, "ok\n7 6");
}

/// One of three that is told to come brings the others, and nothing that they count is lost.
#[test]
fn three_that_count() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > counters.py <<'END'{COUNTERS}END
        for who in 1 2 3; do
            rm -f end said; tern run --on n2 -- python3 counters.py > said 2>&1 & pid=$!
            lines said 1; all="$pid $(head -1 said)"
            until_ '[ $(tern ps | grep -c " n2 ") -ge 3 ]'
            tern move $(echo $all | cut -d' ' -f$who) home 2>&1
            tern ps | grep -w -e $pid
            sleep 0.2; touch end; wait $pid; tail -1 said
        done"#
        ),
    )
    .text();
    assert_eq!(text, "right\nright\nright");
}

/// Workers of a pool, which share locks and pipes; one that waits for its work is told to come home, then one that works.
#[test]
fn a_pool() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > pool.py <<'END'
import multiprocessing, os, time
def prepare(one): global lock; lock = one
def work(n):
    with lock: time.sleep(0.002)
    with open("done", "a") as f: f.write("%d\n" % os.getpid())
    return n * n
lock = multiprocessing.Lock()
with multiprocessing.Pool(3, prepare, (lock,)) as pool:
    print(sum(pool.imap_unordered(work, range(600))), flush=True)
END
        tern run --on n2 -- python3 pool.py > said 2>&1 & pid=$!
        lines done 30; worker=$(head -1 done)
        tern move $worker home 2>&1
        tern ps | grep -w -e $pid -e $worker
        wait $pid; cat said"#,
    )
    .text();
    assert_eq!(text, "71820100");
}

/// Whoever cannot come home keeps all away, and the reason names it; all go on.
#[test]
fn one_that_stays_keeps_all() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > family.py <<'END'
import ctypes, mmap, os, time
libc = ctypes.CDLL(None)
m = mmap.mmap(-1, 4096)
child = os.fork()
if child == 0:
    context = ctypes.c_long(0); libc.syscall(206, 1, ctypes.byref(context))
    m[0] = 1
    while not m[1]: time.sleep(0.001)
    m[2] = 3; os._exit(0)
while not m[0]: time.sleep(0.001)
print(child, flush=True)
while not os.path.exists("go"): time.sleep(0.01)
m[1] = 1; os.wait(); print(m[2])
END
        tern run --on n2 -- python3 family.py > said 2>&1 & pid=$!
        lines said 1; child=$(cat said)
        tern move $pid home 2>&1 | sed s/$child/CHILD/
        tern move $child home 2>&1 | sed s/$pid/PID/
        tern move $pid n3 2>&1 | sed s/$child/CHILD/
        tern ps | awk -v a=$pid -v b=$child '$1 == a || $1 == b { print "away on", $3 }'
        touch go; wait $pid; tail -1 said"#,
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    let wanted = [
        "process CHILD, with which it shares memory, stays",
        "asynchronous",
        "(CHILD)",
        "away on n2",
        "away on n2",
        "3",
    ];
    assert!(
        lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(said, wanted)| said.contains(wanted)),
        "{text}"
    );
}
