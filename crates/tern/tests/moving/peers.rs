//! Whom a program works with while it is moved: a peer on another machine that knows nothing of
//! tern, and another program on the same database.

use std::process::{Command, Stdio};

use crate::{at_home, shared};

/// `stream.py MIB SIDE ADDRESS`: sends and takes at least so many MiB at once, until there is a
/// file `enough` where it connects; says how far it is, and what came and what the ends of the
/// connection are.
const STREAM: &str = r#"
import hashlib, os, socket, sys, threading, time
least, piece, connects = int(sys.argv[1]) << 20, 1 << 18, sys.argv[2] == "connect"
if connects:
    while True:
        try: s = socket.create_connection((sys.argv[3], 5201)); break
        except ConnectionRefusedError: time.sleep(0.05)
else:
    s, _ = socket.create_server((sys.argv[3], 5201)).accept()
def ends(): return "%s:%s-%s:%s" % (*s.getsockname()[:2], *s.getpeername()[:2])
seen = {ends()}
sent, came, over = hashlib.sha1(), hashlib.sha1(), False
def is_enough(): return os.path.exists("enough") if connects else over
def send():
    at = 0
    while at < least or not is_enough():
        if at % (piece * 16) == 0:
            # Its own end is open until all is sent: a closed connection has no ends any more.
            seen.add(ends())
            block = hashlib.sha1(b"%s %d" % (sys.argv[2].encode(), at)).digest() * (piece // 20 + 1)
        data = memoryview(block)[at // piece % 16:][:piece]
        at += piece
        sent.update(data)
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send)
sender.start()
taken = 0
while data := s.recv(piece):
    came.update(data)
    before, taken = taken >> 20, taken + len(data)
    if taken >> 20 != before: print(taken >> 20, flush=True)
over = True
sender.join()
print("ends", *seen, "sent", sent.hexdigest(), "came", came.hexdigest(), flush=True)
"#;

fn streams(mib: u32) {
    let lab = shared();
    let python = "/usr/bin/python3";
    let nodes: serde_json::Value =
        serde_json::from_str(&lab.exec("n1", ["tern", "nodes", "--json"]).unwrap().text()).unwrap();
    let address = nodes.as_array().unwrap().iter().find(|n| n["name"] == "n3").unwrap()["address"].clone();
    let address = address.as_str().unwrap().split(':').next().unwrap().to_owned();
    let count = mib.to_string();
    // Other nodes have no interpreter; one in the network of n3 is as far away.
    let is_daemon = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.starts_with(b"ternd"));
    let inside = lab.processes("n3").unwrap().into_iter().find(is_daemon).unwrap().to_string();
    let mut peer = Command::new("nsenter")
        .args(["--target", &inside, "--net", python, "-c", STREAM, &count, "listen", &address])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > stream.py <<'END'{STREAM}END
        {python} stream.py {mib} connect {address} > said 2> errors & pid=$!
        for place in n2 home n2 home n2; do
            lines said $(($(wc -l < said) + 2))
            tern move $pid $place || exit 1
        done
        touch enough; wait $pid || echo "status $?"; cat errors; tail -1 said"#
        ),
    )
    .text();
    let mut said = String::new();
    std::io::Read::read_to_string(peer.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert!(peer.wait().unwrap().success());
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (here, there) = (words(&text), words(said.lines().last().unwrap()));
    assert!(here.len() == 6 && there.len() == 6, "{text}, {there:?}");
    let turned = |ends: &str| ends.split_once('-').map(|(a, b)| format!("{b}-{a}")).unwrap_or_default();
    assert_eq!(here[1], turned(&there[1]), "the connection's ends");
    assert_eq!((&here[3], &here[5]), (&there[5], &there[3]), "what was sent and what came");
}

/// A peer on a third machine sees one connection from one address, and every byte once, both ways,
/// through five moves.
#[test]
fn a_peer_elsewhere_sees_one_connection() {
    streams(32);
}

#[test]
#[ignore = "a GiB each way takes a while: --full"]
fn a_peer_elsewhere_sees_one_connection_of_a_gib() {
    streams(1024);
}

/// `writer.py NAME N [FILE]`: so many transactions on a database with a write-ahead log, whose
/// index all writers map shared and writable; half-way it waits for the file.
const WRITER: &str = r#"
import os, sqlite3, sys, time
name, n = sys.argv[1], int(sys.argv[2])
db = sqlite3.connect("data.db", isolation_level=None, timeout=60)
db.execute("pragma synchronous = off")
for i in range(n):
    db.execute("begin immediate")
    db.execute("insert into t values (?, ?)", (name, i))
    db.execute("update sums set sum = sum + ?", (i,))
    db.execute("commit")
    if i % 100 == 0: print(i, flush=True)
    while i == n // 2 and sys.argv[3:] and not os.path.exists(sys.argv[3]): time.sleep(0.01)
"#;

/// Two writers on one database, one of them placed on another node, then one of them moved: ten
/// thousand transactions, none lost, none torn.
#[test]
fn two_writers_on_one_database() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > writer.py <<'END'{WRITER}END
        make() {{
            rm -f data.db*
            python3 -c 'import sqlite3; db = sqlite3.connect("data.db"); print(db.execute("pragma journal_mode = wal").fetchone()[0])
db.execute("create table t(name, i)"); db.execute("create table sums(sum)"); db.execute("insert into sums values (0)"); db.commit()'
        }}
        look() {{
            python3 -c 'import sqlite3; db = sqlite3.connect("data.db"); ask = lambda q: print(*db.execute(q).fetchone())
ask("select count(*), count(distinct name || i) from t"); ask("select sum from sums"); ask("pragma integrity_check")'
        }}
        make
        python3 writer.py a 2500 > a 2>&1 & first=$!
        tern run --on n2 -- python3 writer.py b 2500 > b 2>&1 & second=$!
        wait $first && wait $second && look || tail a b
        make
        python3 writer.py a 2500 > a 2>&1 & first=$!
        python3 writer.py b 2500 asked > b 2>&1 & pid=$!
        lines b 3
        # It may not leave while it has the index mapped: that is an answer, too.
        tern move $pid n2 2> why || grep -q 'mapped' why || cat why
        touch asked
        wait $first && wait $pid && look"#
        ),
    )
    .text();
    let once = "wal\n5000 5000\n6247500\nok";
    assert_eq!(text.trim(), format!("{once}\n{once}"));
}

/// `lock.py KIND`: locks a byte of the file `f` that it opened itself, and makes that lock its own
/// alone when it is told.
const LOCK: &str = r#"
import fcntl, signal, sys
f = open("f", "r+")
if sys.argv[1] == "ofd":
    import struct
    fcntl.fcntl(f, 37, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 7, 1, 0))
else:
    fcntl.lockf(f, fcntl.LOCK_SH if sys.argv[1] == "shared" else fcntl.LOCK_EX, 1, 7)
def alone(*_):
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)
    print("alone", flush=True)
signal.signal(signal.SIGUSR1, alone)
print("locked", flush=True)
while True: signal.pause()
"#;

/// What a process locked while it was away it holds as its own when it has come home. Failed
/// before: such a process stayed away, and one that had to come home got an error. What belongs to
/// nobody else does not change hands for a user's wish.
#[test]
fn locks_taken_away_come_home() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > lock.py <<'END'{LOCK}END
        cat > try.py <<'END'
import fcntl, sys
try: fcntl.lockf(open("f", "r+"), getattr(fcntl, sys.argv[1]) | fcntl.LOCK_NB, 1, 7); print("free")
except OSError: print("taken")
END
        echo 0123456789 > f
        begin() {{ rm -f said; tern run --on n2 -- python3 lock.py $1 > said & pid=$!; lines said 1; }}
        begin shared; python3 try.py LOCK_EX
        tern move $pid home; python3 try.py LOCK_SH; python3 try.py LOCK_EX; grep -c 'POSIX.*READ' /proc/$pid/fdinfo/3
        kill -USR1 $pid; lines said 2; python3 try.py LOCK_SH; tail -1 said
        tern move $pid n2; tern move $pid home; python3 try.py LOCK_SH; kill $pid; wait $pid; python3 try.py LOCK_EX
        begin exclusive; tern move $pid home 2>&1 | grep -c 'for itself alone'; kill $pid; wait $pid
        begin ofd; python3 try.py LOCK_SH; tern move $pid home; python3 try.py LOCK_SH; python3 try.py LOCK_EX; kill $pid; wait $pid; python3 try.py LOCK_EX"#
        ),
    )
    .text();
    assert_eq!(text.replace('\n', " "), "taken free taken 1 taken alone taken free 1 free free taken free");
}

/// A record lock (fcntl) is its process', and would go with any descriptor of the file that this
/// closes: while it is held, a file that others have open in common with it stays where it is.
/// Failed before: both locks were lost when the parent came home.
#[test]
fn record_locks_of_families_are_not_lost() {
    let lab = shared();
    let text = at_home(
        &lab,
        r#"
        cat > family.py <<'END'
import fcntl, os, sys, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
f = open("lock", "w")
def locks():
    fcntl.lockf(f, fcntl.LOCK_EX); open("held", "w").close(); until("go"); fcntl.lockf(f, fcntl.LOCK_UN); open("done", "w").close()
if os.fork() == 0:
    if sys.argv[1] == "child": locks()
    until("end"); os._exit(0)
if sys.argv[1] == "parent": locks()
until("end"); os.wait()
END
        cat > try.py <<'END'
import fcntl
try: fcntl.lockf(open("lock", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB); print("free")
except OSError: print("taken")
END
        for who in parent child; do
            rm -f lock held go done end; tern run --on n2 -- python3 family.py $who & pid=$!; until_ '[ -e held ]'
            tern move $pid home 2>&1 | grep -o 'has locked\|for itself alone'; python3 try.py
            touch go; until_ '[ -e done ]'; python3 try.py; tern move $pid home 2>&1; touch end; wait $pid
        done"#,
    )
    .text();
    assert_eq!(text.trim(), ["has locked\ntaken\nfree"; 2].join("\n"));
}

/// `hold.py`, `hold.sh` and `family.py` lock the file `lock` (flock(2)), and write to it before and
/// after they are moved: the first alone; the second has it locked by another program, and children
/// that have it open; the third has a child that writes, too.
const HOLDERS: &str = r#"
cat > hold.py <<'END'
import fcntl, os, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
f = open("lock", "a"); fcntl.flock(f, fcntl.LOCK_EX)
os.write(f.fileno(), b"one "); open("held", "w").close(); until("go")
os.write(f.fileno(), b"two "); open("done", "w").close(); until("end")
END
cat > hold.sh <<'END'
exec 9>> lock; flock 9; echo -n 'one ' >&9; : > held
until [ -e go ]; do sleep 0.2; done
echo -n 'two ' >&9; : > done
until [ -e end ]; do sleep 0.2; done
END
cat > family.py <<'END'
import fcntl, os, time
def until(name):
    while not os.path.exists(name): time.sleep(0.01)
f = open("lock", "w"); fcntl.flock(f, fcntl.LOCK_EX)
os.write(f.fileno(), b"one "); open("held", "w").close()
if os.fork() == 0:
    until("go"); os.write(f.fileno(), b"two "); open("done", "w").close(); until("end"); os._exit(0)
until("end"); os.wait()
END
"#;

/// A lock of an open file (flock(2)) that was taken away is held all the while its process comes
/// home, goes on, and comes home again, and is free when all who have it have closed it. Failed
/// before: who had locked a file stayed away; and where another program had done it for them
/// (flock(1)), the lock was lost.
#[test]
fn locks_of_open_files_come_home() {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"
        {HOLDERS}
        is_free() {{ flock -n lock true && echo free || echo taken; }}
        for holder in "python3 hold.py" "bash hold.sh" "python3 family.py"; do
            rm -f lock held go done end
            tern run --on n2 -- $holder & pid=$!; until_ '[ -e held ]'; is_free
            tern move $pid home 2>&1; is_free; readlink /proc/$pid/fd/* | grep -c "^$PWD/lock$"
            touch go; until_ '[ -e done ]'; is_free
            tern move $pid n3 2>&1; is_free; tern move $pid home 2>&1; is_free
            touch end; wait $pid; is_free; cat lock; echo
            rm -f lock held go done end
            tern run --on n2 -- $holder & pid=$!; until_ '[ -e held ]'
            tern move $pid n3 2>&1; is_free; touch go; until_ '[ -e done ]'; touch end; wait $pid; is_free; cat lock; echo
        done"#
        ),
    )
    .text();
    let each = "taken\ntaken\n1\ntaken\ntaken\ntaken\nfree\none two \ntaken\nfree\none two ";
    assert_eq!(text.trim(), [each; 3].join("\n").trim());
}
