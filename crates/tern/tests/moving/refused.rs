//! Kinds of state that are seldom, one by one: carried, or refused by their names; never moved
//! half.

use crate::{at_home, shared};

/// What a Python program does first (`sc`: a system call, `m`: memory without a name), what it does
/// when it may have been moved and must hold true, and the word with which it is refused; no word:
/// it goes.
const KINDS: &[(&str, &str, &str)] = &[
    ("sc(425, 4, bytes(120))", "True", "io_uring"),
    ("f = sc(447, 0); os.ftruncate(f, 4096); s = mmap.mmap(f, 4096); os.close(f)", "True", "memfd_secret"),
    ("sc(9, 0, 4096, 3, 0x28, -1, 0)", "True", ""),
    ("sc(9, 0, 2 << 20, 3, 0x40022, -1, 0)", "True", "hugetlbfs"),
    ("sc(323, 1)", "True", "userfaultfd"),
    ("k = sc(330, 0, 0)", "sc(330, 0, 0) == (k + 1 if k > 0 else k)", ""),
    ("c = ctypes.c_long(0); sc(206, 1, ctypes.byref(c))", "sc(208, c, 0, 1, bytes(32), bytes(16)) == 0", ""),
    (
        "import struct, threading; c = ctypes.c_long(0); sc(206, 1, ctypes.byref(c)); r, w = os.pipe(); q = ctypes.create_string_buffer(struct.pack('QIIHhIQQqQII', 1, 0, 0, 5, 0, r, 1, 0, 0, 0, 0, 0)); sc(209, c, 1, (ctypes.c_void_p * 1)(ctypes.addressof(q))); v = []; t = threading.Thread(target=lambda: v.append(sc(208, c, 1, 1, bytes(32), None))); t.start()",
        "os.write(w, b'x') == 1 and t.join() is None and v == [1]",
        "io_submit",
    ),
    ("f = open('x', 'w+b'); f.truncate(4096); s = mmap.mmap(f.fileno(), 4096); f.close(); os.unlink('x')", "True", ""),
    ("f = open('x', 'w+b'); f.truncate(4096); s = mmap.mmap(f.fileno(), 4096); f.close(); s[9] = 7", "s[9] == 7", ""),
    (
        "f = open('x', 'w+b'); f.truncate(4096); s = mmap.mmap(f.fileno(), 4096); fcntl.flock(f, 2)",
        "fcntl.flock(f, 8) is None",
        "mapped shared and writable, and its descriptor",
    ),
    (
        "import multiprocessing; l = multiprocessing.Lock(); l.acquire()",
        "l.release() is None and l.acquire(True, 1)",
        "",
    ),
    (
        "import multiprocessing; l = multiprocessing.Lock(); p = os.fork() or (time.sleep(99), os._exit(0))",
        "os.kill(p, 9) is None",
        "",
    ),
    ("sc(154, 1, (ctypes.c_uint * 4)(0, 4096, 16, 0x51), 16)", "True", "modify_ldt"),
    ("i = sc(29, 0, 4096, 0o1600); sc(30, i, 0, 0); sc(31, i, 0, 0)", "True", "System V"),
    ("f = open('x', 'w'); f.close(); f = open('x'); fcntl.fcntl(f, 1024, 0)", "fcntl.fcntl(f, 1025) == 0", ""),
    ("f = open('x', 'w'); fcntl.flock(f, 2)", "fcntl.flock(f, 8) is None", ""),
    ("import socket, stat; a = socket.socket()", "stat.S_ISSOCK(os.fstat(a.fileno()).st_mode)", ""),
    (
        "f = os.open('x', os.O_RDWR | os.O_CREAT); os.write(f, b'abc'); p = os.fork() or (time.sleep(9), os._exit(0))",
        "os.fstat(f).st_size == 3 and os.kill(p, 9) is None",
        "",
    ),
    ("f = open('x', 'w'); fcntl.lockf(f, 2)", "fcntl.lockf(f, 8) is None", ""),
    ("os.mkdir('e'); f = os.open('e', os.O_RDONLY); fcntl.flock(f, 2)", "True", "lock"),
    ("f = sc(240, b'tern-test', 0o102, 0o600, None); sc(241, b'tern-test')", "os.fstat(f).st_size >= 0", ""),
    ("k = sc(248, b'user', b'tern', b'abc', 3, -2)", "sc(250, 11, k, 0, 0) == 3", ""),
    ("a = sc(462, m, 4096, 0)", "True", "mseal"),
    ("sc(157, 38, 1, 0, 0, 0); sc(157, 22, 2, ctypes.byref(program(0x7fff0000)))", "True", "seccomp"),
    ("sc(157, 38, 1, 0, 0, 0); restrict()", "True", "Landlock"),
    (
        "import threading; e = threading.Event(); t = threading.Thread(target=lambda: (restrict(), e.wait())); t.start()",
        "e.set() is None",
        "Landlock",
    ),
    (
        "restrict(); os.fchmod(1, 0o666); os.setresgid(7, 7, 7); os.setresuid(7, 7, 7); sc(157, 4, 1)",
        "True",
        "Landlock",
    ),
    (
        "sc(157, 38, 1, 0, 0, 0); os.fchmod(1, 0o666); os.setresgid(7, 7, 7); os.setresuid(7, 7, 7); sc(157, 4, 1)",
        "True",
        "",
    ),
    ("sc(272, 0x10000000)", "True", "namespace"),
    (
        "os.mkdir('p', 0o700); d = os.open('p', 0); os.fchmod(1, 0o666); os.setresgid(7, 7, 7); os.setresuid(7, 7, 7); sc(157, 4, 1)",
        "True",
        "may not open",
    ),
    (
        "os.mkdir('w', 0o700); g = sys.argv[3]; os.chdir('w'); os.fchmod(1, 0o666); os.setresgid(7, 7, 7); os.setresuid(7, 7, 7); sc(157, 4, 1)",
        "True",
        "may not enter its working directory",
    ),
    (
        "import threading; e = threading.Event(); t = threading.Thread(target=lambda: (sc(272, 0x200), e.wait())); t.start()",
        "e.set() is None",
        "working directory of its own",
    ),
    (
        "import threading; e = threading.Event(); t = threading.Thread(target=lambda: (sc(117, 7, 7, 7), e.wait())); t.start()",
        "e.set() is None",
        "other users, groups or capabilities",
    ),
    ("sc(314, 0, (ctypes.c_ulonglong * 6)(48 | 6 << 32, 0, 0, 10**6, 10**7, 10**7), 0)", "True", "real time"),
    ("sc(144, 0, 3, bytes(4)); sc(251, 1, 0, 2 << 13 | 6)", "sc(145, 0) == 3 and sc(252, 1, 0) == 2 << 13 | 6", ""),
    ("os.sched_setaffinity(0, [0])", "os.sched_getaffinity(0) == {0}", ""),
    ("sc(157, 1, 10)", "prctl(2) == 10", ""),
    ("sc(157, 36, 1)", "prctl(37) == 1", ""),
    ("sc(157, 41, 1, 0, 0, 0)", "sc(157, 42, 0, 0, 0, 0) == 1", ""),
    ("sc(157, 29, 12345)", "sc(157, 30) == 12345", ""),
    ("sc(157, 65, 1, 0, 0, 0)", "sc(157, 66, 0, 0, 0, 0) == 1", ""),
    ("sc(157, 4, 0)", "sc(157, 3) == 0", ""),
    ("sc(324, 64, 0, 0)", "sc(324, 32, 0, 0) == 0", ""),
    ("sc(135, 0x1040000)", "sc(135, 0xffffffff) == 0x1040000", ""),
    ("sc(135, 0x400000)", "True", "READ_IMPLIES_EXEC"),
    ("sc(135, 0x100000)", "True", "MMAP_PAGE_ZERO"),
    ("b = ctypes.create_string_buffer(8); sc(157, 59, 1, 0, 0, b)", "True", "PR_SET_SYSCALL_USER_DISPATCH"),
    ("sc(173, 0x80, 1, 1)", "True", "ioperm"),
    ("sc(158, 0x4002, 6)", "True", "LAM"),
    ("f = os.open('/proc/self/status', os.O_RDONLY)", "b'Name' in os.read(f, 100)", ""),
    (
        "f = open('/dev/shm/x%d' % os.getpid(), 'w+b'); f.truncate(4096); os.unlink(f.name); f.write(b'abc'); f.flush()",
        "os.pread(f.fileno(), 9, 0)[:4] == b'abc\\0' and f.write(b'd') == 1 and f.flush() is None and f.tell() == 4",
        "",
    ),
    (
        "f = open('/dev/shm/y%d' % os.getpid(), 'w+b'); f.write(b'abc'); f.flush()",
        "os.pread(f.fileno(), 9, 0) == b'abc'",
        "",
    ),
    ("os.chdir('/dev/shm')", "os.getcwd() == '/dev/shm'", ""),
    ("os.mkdir('d'); os.chdir('d'); os.rmdir('../d')", "True", "working directory"),
];

const PROGRAM: &str = r#"
import ctypes, fcntl, mmap, os, sys, time
libc = ctypes.CDLL(None, use_errno=True); libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_long
m = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0)))
def sc(n, *a):
    a = [ctypes.c_long(x) if isinstance(x, int) else x for x in a]
    r = libc.syscall(ctypes.c_long(n), *a)
    if r == -1: raise OSError(ctypes.get_errno(), "call %d" % n)
    return r
def prctl(what):
    v = ctypes.c_int(0); sc(157, what, ctypes.byref(v)); return v.value
def restrict():
    r = sc(444, (ctypes.c_ulonglong * 1)(1 << 11), 8, 0); sc(446, r, 0); os.close(r)
class program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("at", ctypes.c_void_p)]
    def __init__(self, answer):
        self.code = (ctypes.c_ulonglong * 1)(6 | answer << 32); super().__init__(1, ctypes.addressof(self.code))
try: exec(sys.argv[1])
except OSError as e: print("absent", e, flush=True); sys.exit()
print("up", flush=True)
while not os.path.exists(sys.argv[3]): time.sleep(0.005)
print(eval(sys.argv[2]), flush=True)
"#;

#[test]
fn each_kind_is_carried_or_named() {
    let lab = shared();
    let mut wrong = Vec::new();
    for (first, then, word) in KINDS {
        let script = format!(
            r#"
        cat > program <<'END'{PROGRAM}END
        /usr/bin/python3 program "{first}" "{then}" $PWD/go > said 2>&1 & pid=$!
        until_ '[ -s said ]'; head -1 said
        if grep -q up said; then
            tern why $pid | grep -q 'cannot be moved now: ' && echo stays || echo goes
            tern move $pid n2 > moved 2>&1 && echo moved; head -1 moved
            touch go; wait $pid; tail -1 said
        fi"#
        );
        let text = at_home(&lab, &script).text();
        let lines: Vec<&str> = text.lines().collect();
        let right = match lines.as_slice() {
            [absent] => absent.starts_with("absent"),
            ["up", "goes", "moved", .., "True"] => word.is_empty(),
            // Whether a process is under Landlock only its own thread's look into another tells.
            ["up", why, refused, "True"] => {
                !word.is_empty() && refused.contains(word) && (*why == "stays" || *word == "Landlock")
            }
            _ => false,
        };
        println!("{first}: {}", lines.get(2).unwrap_or(&"absent here"));
        if !right {
            wrong.push(format!("{first}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What it may not do by itself, tern does not do for it.
#[test]
fn restricted_programs_are_not_placed() {
    let restricted = r#"
import ctypes, os
libc = ctypes.CDLL(None); libc.prctl(38, 1, 0, 0, 0)
r = libc.syscall(444, (ctypes.c_ulonglong * 1)(1 << 11), 8, 0)
if r < 0: print("absent"); raise SystemExit
libc.syscall(446, r, 0)
os.execvp("tern", ["tern", "run", "--on", "n2", "--", "echo", "placed"])
"#;
    let script = format!("cat > program <<'END'{restricted}END\npython3 program 2>&1 || echo $?");
    let text = at_home(&shared(), &script).text();
    assert!(text == "absent" || (text.contains("Landlock") && text.ends_with("125")), "{text}");
}

/// Reads a byte, says so, and ends: in 32-bit code. (Before, it was killed by the first call that
/// was made in it.)
const OF_32_BITS: &str = r#"
import struct
base, head = 0x08048000, 52 + 32
def call(number, *arguments):
    registers = b"".join(bytes([0xb8 + n]) + struct.pack("<I", value) for n, value in zip((0, 3, 1, 2), (number, *arguments)))
    return registers + b"\xcd\x80"
at = base + head + 200
code = call(3, 0, at + 8, 1) + call(4, 1, at, 3) + call(1, 5)
body = code.ljust(200, b"\0") + b"32\n".ljust(16, b"\0")
size = head + len(body)
elf = b"\x7fELF\1\1\1".ljust(16, b"\0") + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + head, 52, 0, 0, 52, 32, 1, 0, 0, 0)
open("other", "wb").write(elf + struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 7, 4096) + body)
"#;

/// It stays, as it is; and who executes it away comes home for it.
#[test]
fn other_code_runs_at_home() {
    let script = format!(
        r#"
        cat > make.py <<'END'{OF_32_BITS}END
        python3 make.py; chmod 755 other; mkfifo in
        if ! echo | ./other > said && [ ! -s said ]; then echo absent; exit 0; fi
        ./other < in & pid=$!
        exec 3> in; until_ "grep -q '^3 ' /proc/$pid/syscall"
        tern why $pid | grep -c "cannot be moved now: it runs 32-bit"; tern move $pid n2 2>&1 | grep -c 32-bit; echo >&3; exec 3>&-; wait $pid; echo $?
        echo | tern run --on n2 bash -c './other; echo $?'"#
    );
    let text = at_home(&shared(), &script).text();
    assert!(text == "absent" || text.lines().eq(["1", "1", "32", "5", "32", "5"]), "{text}");
}

/// As setarch(8) does it; the kernel says it of the program that it executes.
#[test]
fn a_placed_program_has_the_personality_of_who_placed_it() {
    let script = "setarch -R tern run --on n2 -- cat /proc/self/personality; cat /proc/self/personality";
    let text = at_home(&shared(), script).text();
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["00040000", "00000000"]);
}

/// A FIFO that was opened away cannot be opened anew: that would wait for the other end. (Failed
/// before: its move waited for 20 s, and said that it was not away.)
#[test]
fn a_fifo_opened_away_keeps_its_process_there() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        mkfifo fifo hold; exec 9<> hold
        tern run --on n2 /usr/bin/python3 -c 'import os; f = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK); print("up", flush=True); input()' <&9 > said 2>&1 & pid=$!
        until_ '[ -s said ]'; cat said
        tern move $pid n3 2>&1; tern move $pid home 2>&1
        echo >&9; wait"#,
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    let right = |line: &&str| line.contains("is a FIFO that was opened there");
    assert!(lines.len() == 3 && lines[0] == "up" && lines[1..].iter().all(right), "{text}");
}

/// What waits in a pair of sockets and cannot be told keeps its process there, and nobody loses
/// anything by that; when it was received, both ends come home.
#[test]
fn what_waits_in_sockets_and_cannot_be_told_is_named() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > pairs.py <<'END'
import os, socket, sys
def pair(kind=socket.SOCK_STREAM): return socket.socketpair(socket.AF_UNIX, kind)
def pause(what): print(what, flush=True); input()
a, b = pair(); socket.send_fds(a, [b"x"], [0]); pause("descriptors")
message, fds, *_ = socket.recv_fds(b, 1, 1); os.close(*fds); print(message)
a, b = pair(socket.SOCK_DGRAM); a.send(b"1"); a.send(b""); a.send(b"3"); pause("nothing")
print([b.recv(9) for _ in range(3)])
a, b = pair(); b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1); a.send(b"y"); pause("credentials")
message, with_it, *_ = b.recvmsg(1, 100); print(message, len(with_it))
a, b = pair(); a.send(b"z"); pause("all")
print(b.recv(1)); pause("end")
END
        mkfifo fifo; exec 9<> fifo
        tern run --on n2 /usr/bin/python3 pairs.py <&9 > said 2>&1 & pid=$!
        for what in descriptors nothing credentials all end; do
            until_ "grep -q ^$what said"
            # What was refused is refused again.
            for try in 1 2; do tern move $pid home 2>&1 | grep -o 'holds.*\|runs on n1 already'; done
            echo >&9
        done
        wait $pid; echo "end $?"; cat said"#,
    )
    .text();
    let refused = "\
        holds messages with descriptors\nholds messages with descriptors\n\
        holds an empty message\nholds an empty message, as far as is known\n\
        holds messages that tell who sent them (SO_PASSCRED)\nholds messages that tell who sent them (SO_PASSCRED)\n";
    let said = "descriptors\nb'x'\nnothing\n[b'1', b'', b'3']\ncredentials\nb'y' 1\nall\nb'z'\nend\n";
    let home = "runs on n1 already\n".repeat(3);
    assert_eq!(text.trim_end(), format!("{refused}{home}end 0\n{said}").trim_end());
}
