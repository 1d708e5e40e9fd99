//! Processes that share memory move together: out, home, and from node to node.

use crate::{at_home, program, shared};

/// Counts in shared memory, with everything that processes can wait for in it.
const COUNTS: &str = include_str!("group_counts.c");

/// Moves a group of so many processes through all places, each time by another of its processes,
/// and ends it: every count must be right.
fn all_move_and_count(members: usize, rounds: usize) {
    let lab = shared();
    let counts = program(&lab, "group_counts", COUNTS, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        {counts} {members} end > said 2>&1 & pid=$!
        lines said 1; all=($pid $(head -1 said | cut -d' ' -f2-)); n=0
        for round in $(seq {rounds}); do for to in n2 n3 home; do
            at=$to; if [ $to = home ]; then at=n1; fi
            tern move ${{all[$((n++ % {members}))]}} $to 2>&1
            for p in ${{all[@]}}; do tern ps | awk -v p=$p '$1 == p {{ print $3 }}'; done | sort | uniq -c
            sleep 0.05
        done; done
        touch end; wait $pid; echo $?; tail -1 said"#
        ),
    )
    .text();
    let there = |node: &str| format!("{members:7} {node}");
    let mut wanted: Vec<String> = (0..rounds).flat_map(|_| [there("n2"), there("n3")]).collect();
    wanted.extend(["0".to_owned(), "right".to_owned()]);
    // uniq(1) pads its counts, and the first line loses its spaces.
    let trimmed = |lines: &[String]| lines.iter().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let said: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(said, trimmed(&wanted));
}

#[test]
fn two_count() {
    all_move_and_count(2, 5);
}

#[test]
fn eight_count() {
    all_move_and_count(8, 3);
}

#[test]
fn sixty_four_count() {
    all_move_and_count(64, 1);
}

/// A program that shares memory with children of three kinds: one is stopped, one begets children
/// all the time, and one ends just when the group moves.
const FAMILY: &str = r#"
import mmap, os, signal, sys, time
m = mmap.mmap(-1, 4096)
def add(slot): m[slot] = (m[slot] + 1) % 251
def child(work):
    pid = os.fork()
    if pid == 0:
        work(); os._exit(0)
    return pid
def counts():
    while not os.path.exists("end"): add(1); time.sleep(0.001)
def begets():
    while not os.path.exists("end"):
        pid = os.fork()
        if pid == 0:
            add(2); os._exit(0)
        if os.waitpid(pid, 0)[1]: os._exit(1)
def ends():
    while not os.path.exists("ends"): add(3); time.sleep(0.001)
all = [child(counts), child(begets), child(ends)]
print(*all, flush=True)
while not os.path.exists("end"): add(0); time.sleep(0.001)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in all], flush=True)
"#;

/// One is stopped, one begets children all the time, one ends: the others move, and all go on.
#[test]
fn one_is_stopped_one_begets_and_one_ends() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > family.py <<'END'{FAMILY}END
        python3 family.py > said 2>&1 & pid=$!
        lines said 1; set -- $(head -1 said)
        moves() {{ until_ "tern move $pid $1 > moved 2>&1 || grep -q 'runs on' moved"; }}
        kill -STOP $1; until_ "grep -q 'State:.T' /proc/$1/status"
        moves n2; tern ps | awk -v p=$1 '$1 == p {{ print $3 }}'
        touch ends; tern move $pid home 2>&1 | grep -o "process $1 .*stopped" | sed s/$1/STOPPED/
        kill -CONT $1; moves home; kill -STOP $1
        moves n3; tern ps | awk -v p=$1 '$1 == p {{ print $3 }}'
        kill -CONT $1; moves n2; moves home
        touch end; wait $pid; tail -1 said"#
        ),
    )
    .text();
    assert_eq!(text, "n2\nprocess STOPPED has an open file or memory in common with it: it is stopped\nn3\n[0, 0, 0]");
}

/// One that a debugger holds keeps the group at home: the reason names it, and all go on.
#[test]
fn one_that_is_traced_keeps_all() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > traced.py <<'END'
import ctypes, mmap, os, time
libc = ctypes.CDLL(None)
m = mmap.mmap(-1, 4096)
child = os.fork()
if child == 0:
    while not m[1]: m[0] = (m[0] + 1) % 251; time.sleep(0.001)
    m[2] = 3; os._exit(0)
while not m[0]: time.sleep(0.001)
tracer = os.fork()
if tracer == 0:
    libc.ptrace(0x4206, child, None, None); open("traces", "w").close()
    while not os.path.exists("let"): time.sleep(0.01)
    os._exit(0)
print(child, flush=True)
while not os.path.exists("go"): time.sleep(0.01)
m[1] = 1; os.waitpid(child, 0); print(m[2])
END
        python3 traced.py > said 2>&1 & pid=$!
        lines said 1; child=$(head -1 said); until_ '[ -e traces ]'
        tern move $pid n2 2>&1 | sed s/$child/CHILD/
        tern ps | awk -v a=$pid -v b=$child '$1 == a || $1 == b { print "away on", $3 }'
        touch let; until_ "grep -q 'TracerPid:.0' /proc/$child/status"
        tern move $pid n2 --json | python3 -c 'import json, sys; print([len(hop["with"]) for hop in json.load(sys.stdin)])'
        tern why $child | grep -c "moved from n1 to n2"
        tern move --alone $pid home 2>&1 | sed s/$child/CHILD/
        touch go; wait $pid; tail -1 said"#,
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    let wanted = ["process CHILD, with which it shares memory, stays", "[1]", "1", "CHILD", "3"];
    assert!(
        lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(said, wanted)| said.contains(wanted)),
        "{text}"
    );
}

/// Workers of a pool that began at home, with values, arrays, queues and a manager: all move, and
/// the results are right.
#[test]
fn multiprocessing_moves() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > pool.py <<'END'
import multiprocessing, os, time
def prepare(a, b, c): global lock, value, array; lock, value, array = a, b, c
def work(n):
    with lock: array[n % 8] += 1
    with value.get_lock(): value.value += n
    time.sleep(0.002)
    return n * n
if __name__ == "__main__":
    lock, value, array = multiprocessing.Lock(), multiprocessing.Value("l", 0), multiprocessing.Array("i", 8)
    print("up", flush=True)
    with multiprocessing.Pool(4, prepare, (lock, value, array)) as pool:
        rounds = 0
        while not os.path.exists("end"):
            rounds += 1
            if sum(pool.imap_unordered(work, range(200))) != 2646700: print("wrong", flush=True)
            print(rounds, file=open("worked", "a"))
    print(value.value == rounds * 19900, sum(array) == rounds * 200, flush=True)
END
        touch worked; python3 pool.py > said 2>&1 & pid=$!
        lines worked 2
        for to in n2 n3 home n3 n2 home; do
            tern move $pid $to 2>&1
            lines worked $(($(wc -l < worked) + 2))
        done
        touch end; wait $pid; tail -1 said"#,
    )
    .text();
    assert_eq!(text, "True True");
}

/// A file in memory that two have opened, each for itself, would have one offset for both: they
/// stay, and go on.
#[test]
fn memory_that_was_opened_once_more_stays() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > twice.py <<'END'
import mmap, os, time
f = os.memfd_create("twice"); os.truncate(f, 4096)
child = os.fork()
if child == 0:
    g = os.open("/proc/self/fd/%d" % f, os.O_RDWR); os.close(f); m = mmap.mmap(g, 4096)
    while not m[1]: m[0] = (m[0] + 1) % 251; time.sleep(0.001)
    m[2] = 3; os._exit(os.lseek(g, 0, os.SEEK_CUR))
m = mmap.mmap(f, 4096); os.lseek(f, 9, os.SEEK_SET)
while not m[0]: time.sleep(0.001)
print("up", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
m[1] = 1; print(m[2] or os.waitpid(child, 0)[1], m[2], os.lseek(f, 0, os.SEEK_CUR))
END
        python3 twice.py > said 2>&1 & pid=$!
        lines said 1
        tern move $pid n2 2>&1 | grep -o 'opened once more'
        tern ps | grep -w $pid
        touch go; wait $pid; tail -1 said"#,
    )
    .text();
    assert_eq!(text, "opened once more\n0 3 9");
}
