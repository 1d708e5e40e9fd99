//! Processes away that share memory with each other come home together.

use crate::{at_home, program, shared};

/// A program that counts in memory that it shares with its children: each in a slot of its own, and
/// all in one under a lock. At the end it prints what must be.
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

/// A file that others at home have open, mapped shared and writable, brings a process home, and
/// with it the child with which it shares memory; they share it still.
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
        exec 9<>file; tern run --on n2 -- python3 probe.py > said 2>&1 9>&- & pid=$!
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

/// Workers of a pool, which share locks and pipes; one that waits for its work is told to come
/// home, then one that works.
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

/// Values and arrays, which lie in files without a name that stay open; of one process alone, too.
#[test]
fn values_and_arrays() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > values.py <<'END'
import multiprocessing, os, sys, time
value, array = multiprocessing.Value("i", 0), multiprocessing.Array("i", 3)
def work(n):
    while not os.path.exists("end"):
        with value.get_lock(): value.value += 1; array[n] += 1
        time.sleep(0.001)
children = [multiprocessing.Process(target=work, args=(n,)) for n in range(int(sys.argv[1]))]
for child in children: child.start()
while children and not all(array[n] for n in range(len(children))): time.sleep(0.01)
print("up", flush=True); work(2)
for child in children: child.join()
print(value.value == sum(array) > 0, [child.exitcode for child in children], flush=True)
END
        for n in 0 2; do
            rm -f end said; tern run --on n2 -- python3 values.py $n > said 2>&1 & pid=$!
            lines said 1; tern move $pid home 2>&1; tern ps | grep -w $pid
            sleep 0.1; touch end; wait $pid; tail -1 said
        done"#,
    )
    .text();
    assert_eq!(text, "True []\nTrue [0, 0]");
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
    libc.syscall(154, 1, (ctypes.c_uint * 4)(0, 4096, 16, 0x51), 16)
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
        "modify_ldt",
        "process CHILD, with which it shares memory, stays",
        "away on n2",
        "away on n2",
        "3",
    ];
    assert!(
        lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(said, wanted)| said.contains(wanted)),
        "{text}"
    );
}

/// Three that share in a chain, the last nothing with the first but an open file in memory; each
/// has other parts mapped. Each writes what the next waits for.
const CHAIN: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { PAGE = 4096 };
static char *anonymous(long pages) {
    return mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
static void await(volatile char *place, char wanted) {
    struct timespec rest = {0, 1000000};
    while (*place != wanted) nanosleep(&rest, 0);
}
int main(void) {
    char *first = anonymous(3);
    int file = memfd_create("common", MFD_ALLOW_SEALING), status;
    ftruncate(file, PAGE);
    write(file, "abc", 3);
    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK);
    first[PAGE + 9] = 11;
    if (fork() == 0) {
        munmap(first, PAGE);
        char *second = anonymous(1);
        second[9] = 12;
        if (fork() == 0) {
            munmap(first + PAGE, 2 * PAGE);
            mprotect(second, PAGE, PROT_READ);
            char *shown = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            printf("%d %d %d\n", getppid(), getpid(), (int)(shown - shown)); fflush(stdout);
            await(second, 'y');
            if (second[9] != 12 || memcmp(shown, "abc", 3) || lseek(file, 0, SEEK_CUR) != 3) _exit(1);
            lseek(file, 7, SEEK_SET);
            shown[10] = 'z';
            _exit(3);
        }
        await(first + 2 * PAGE, 'x');
        if (first[PAGE + 9] != 11) _exit(1);
        second[0] = 'y';
        wait(&status);
        _exit(WEXITSTATUS(status));
    }
    while (access("go", F_OK)) usleep(10000);
    first[2 * PAGE] = 'x';
    wait(&status);
    char byte = 0;
    pread(file, &byte, 1, 10);
    printf("%d %c %d %d\n", WEXITSTATUS(status), byte, (int)lseek(file, 0, SEEK_CUR), fcntl(file, F_GET_SEALS));
    return 0;
}
"#;

#[test]
fn each_has_other_parts() {
    let lab = shared();
    let chain = program(&lab, "chain", CHAIN, &[]);
    let text = at_home(
        &lab,
        &format!(
            r#"
        for who in 1 2 3; do
            rm -f go said; tern run --on n2 -- {chain} > said & pid=$!
            lines said 1; all="$pid $(head -1 said)"
            tern move $(echo $all | cut -d' ' -f$who) home 2>&1
            tern ps | grep -w -e $(echo $all | sed 's/ 0$//; s/ / -e /g')
            touch go; wait $pid; tail -1 said
        done"#
        ),
    )
    .text();
    assert_eq!(text, ["3 z 7 2"; 3].join("\n"));
}

/// All of a family ask at the same time, for calls of their own, while they fork: each comes, and
/// none is left.
#[test]
fn all_ask_at_once() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > family.py <<'END'
import mmap, os, sys, time
m = mmap.mmap(-1, 4096)
def come(n):
    while not os.path.exists("go"): time.sleep(0.002)
    other = os.fork()
    if other == 0: os._exit(0)
    with open("file%d" % n, "w+b") as f:
        f.truncate(4096); s = mmap.mmap(f.fileno(), 4096)
    s[0] = n; m[n] = 1; os.waitpid(other, 0)
    while sum(m[:5]) < 5: time.sleep(0.001)
children = []
for n in range(1, 5):
    child = os.fork()
    if child == 0:
        come(n); os._exit(0)
    children.append(child)
print("up", flush=True); come(0)
print([os.waitpid(child, 0)[1] for child in children], flush=True)
END
        for round in $(seq 8); do
            rm -f go said; tern run --on n2 -- python3 family.py > said 2>&1 & pid=$!
            lines said 1; touch go; wait $pid; tail -1 said
        done"#,
    )
    .text();
    assert_eq!(text, ["[0, 0, 0, 0]"; 8].join("\n"));
}
