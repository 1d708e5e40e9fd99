//! Streams of every kind between two processes that are moved at random, each record counted and
//! checked.

use crate::{alone, at_home, at_home_within, common, shared};

/// `pair.py KIND INDEX`: two processes exchange records until there is a file `end`. A record's
/// size is tiny or large by chance, and so are the pieces in which it is written and read; now and
/// then a side stops for a while.
pub(crate) const PAIR: &str = r#"
import hashlib, os, random, socket, struct, sys, threading, time
kind, index = sys.argv[1], int(sys.argv[2])
packets = kind == "seqpacket"
if kind == "tcp":
    server = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(server.getsockname()); two = server.accept()[0]; server.close()
elif kind in ("unix", "seqpacket"):
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET if packets else socket.SOCK_STREAM)
if kind == "pipe":
    (r1, w1), (r2, w2) = os.pipe(), os.pipe()
    ends = [(r1, w2), (r2, w1)]
else:
    ends = [(one.fileno(),) * 2, (two.fileno(),) * 2]
side = 0 if os.fork() else 1
child = side
reader, writer = ends[side]
for fd in set(ends[1 - side]): os.close(fd)
number = index + side
open("draft.%d" % number, "w").write("%d\n" % os.getpid()); os.rename("draft.%d" % number, "task.%d" % number)
most = 60000 if packets else 300000
def body(of, count, size): return (hashlib.sha1(b"%d %d" % (of, count)).digest() * (size // 20 + 1))[:size]
def size_of(dice): return dice.choice([1, 2, 100, 4096, 65536, most]) if dice.random() < 0.5 else dice.randrange(1, 200)
HEAD = struct.Struct("<QI?")
sent = 0
def send():
    global sent
    dice, last = random.Random(number), False
    while not last:
        last = os.path.exists("end")
        size = min(size_of(dice), most)
        data = HEAD.pack(sent, size, last) + body(number, sent, size)
        if packets: os.write(writer, data)
        else:
            while data:
                piece = data[:dice.choice([1, 700, 70000, len(data)])] if dice.random() < 0.3 else data
                data = data[os.write(writer, piece):]
        sent += 1
        if dice.random() < 0.3: time.sleep(0.01)
        if dice.random() < 0.02: time.sleep(dice.random() * 0.3)
sender = threading.Thread(target=send); sender.start()
dice, held = random.Random(~number), b""
def take(size):
    global held
    while len(held) < size:
        data = os.read(reader, dice.choice([1, 300, 1 << 20]) if dice.random() < 0.3 else 1 << 20)
        if not data: print("end of file after", count, "records", flush=True); os._exit(5)
        held += data
    data, held = held[:size], held[size:]
    return data
count, last = 0, False
while not last:
    if packets: data = os.read(reader, 1 << 20); head, data = data[:HEAD.size], data[HEAD.size:]
    else: head = take(HEAD.size); data = take(HEAD.unpack(head)[1])
    got, size, last = HEAD.unpack(head)
    if got != count or data != body(index + 1 - side, count, size):
        print("task", number, "record", count, "is wrong: its number", got, len(data), "bytes of", size, flush=True); os._exit(6)
    count += 1
    if side == 0 and count % 10 == 0:
        open("rounds.%d" % index, "w").close()
        if index == 0: open("rounds", "w").write(str(count // 10))
    if dice.random() < 0.02: time.sleep(dice.random() * 0.3)
sender.join()
if side:
    os.write(1, b"sound %s %d\n" % (kind.encode(), count)); os._exit(0)
if os.wait()[1]: sys.exit(7)
os.write(1, b"sound %s %d\n" % (kind.encode(), count))
"#;

fn every_kind(seconds: u32, moves: u32, least: u32) {
    let (_alone, lab) = (alone(), shared());
    let text = at_home_within(
        &lab,
        170 + moves,
        &format!(
            r#"
        cat > pair.py <<'END'{PAIR}END
        index=0
        for kind in tcp unix seqpacket pipe; do
            python3 pair.py $kind $index >> said 2>> errors < /dev/null & all="$all $!"
            index=$((index + 2))
        done
        has_begun 8; goes_on
        wander {seconds} {moves} n2 n3 n4 home
        touch end
        for job in $all; do wait $job || echo failed; done
        sort said | cut -d ' ' -f 1,2; cat errors; echo "$moves moves"; sed 's/[0-9]\+/N/g' refused | sort | uniq -c; echo $(cut -d ' ' -f 3 said) records"#
        ),
    )
    .text();
    println!("{text}");
    let sound = ["pipe", "seqpacket", "tcp", "unix"].map(|kind| format!("sound {kind}\nsound {kind}\n")).concat();
    assert!(text.starts_with(&sound), "{text}");
    let moved: u32 = text.lines().find_map(|line| line.strip_suffix(" moves")?.parse().ok()).unwrap();
    assert!(moved >= least, "{text}");
}

/// As many of 200 moves as there is time for.
#[test]
fn streams_of_every_kind_are_sound() {
    every_kind(30, 200, 10);
}

#[test]
#[ignore = "500 moves take minutes: --full"]
fn streams_of_every_kind_are_sound_through_500_moves() {
    every_kind(150, 500, 100);
}

/// `both.py MIB`: two processes exchange words until there is a file `go`; then one sends the
/// other so many MiB.
const BOTH: &str = r#"
import hashlib, os, socket, sys
mib = int(sys.argv[1])
server = socket.create_server(("127.0.0.1", 0))
side = 0 if os.fork() else 1
if side:
    stream = socket.create_connection(server.getsockname())
else:
    stream = server.accept()[0]
server.close()
open("draft.%d" % side, "w").write("%d\n" % os.getpid()); os.rename("draft.%d" % side, "task.%d" % side)
stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
block = hashlib.sha1(b"block").digest() * 3277
said, count = False, 0
if side:
    while not said:
        said = count % 50 == 49 and os.path.exists("go")
        stream.sendall(b"!" if said else b".")
        assert stream.recv(1) == b"."
        count += 1
        if count % 100 == 0: open("rounds", "w").write(str(count // 100))
    for n in range(mib * 16): stream.sendall(block)
    stream.shutdown(socket.SHUT_WR)
    assert stream.recv(100) == b"sound"; os._exit(0)
while not said:
    said = stream.recv(1) == b"!"; stream.sendall(b".")
held, total = b"", 0
while data := stream.recv(1 << 18):
    held += data; total += len(data)
    while len(held) >= len(block):
        assert held[:len(block)] == block; held = held[len(block):]
assert not held and total == mib * 16 * len(block)
open("done", "w").close()
stream.sendall(b"sound"); assert os.wait()[1] == 0; print("sound")
"#;

/// Bytes between two processes of one room do not pass home.
#[test]
fn bytes_of_two_in_one_room_do_not_pass_home() {
    spare_home("n2", "n2");
}

/// Bytes between two processes on two nodes do not pass home either.
#[test]
fn bytes_of_two_on_two_nodes_do_not_pass_home() {
    spare_home("n2", "n3");
}

/// Moves two processes that talk to these nodes, and counts the bytes that home sees of 100 MiB.
fn spare_home(one: &str, other: &str) {
    // Others' bytes would count.
    let lab = common::lab_of(&common::options(3));
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > both.py <<'END'{BOTH}END
        job python3 both.py 100; until_ '[ -s task.0 ] && [ -s task.1 ]'
        tern move $(cat task.0) {one} && tern move $(cat task.1) {other} || exit 1
        rounds() {{ cat rounds 2>/dev/null || echo 0; }}
        from=$(rounds); until_ '[ $(rounds) -ge $((from + 30)) ]'
        passed() {{ awk '!/lo:/ && sub(/^.*:/, "") {{ sum += $1 + $9 }} END {{ print sum }}' /proc/net/dev; }}
        before=$(passed); touch go; until_ '[ -e done ]'; after=$(passed)
        wait $job; echo "status $?"; cat said errors; echo "passed $((after - before))""#
        ),
    )
    .text();
    assert!(text.starts_with("status 0\nsound\n"), "{text}");
    let passed: u64 = text.lines().find_map(|line| line.strip_prefix("passed ")?.parse().ok()).unwrap();
    assert!(passed < 10 << 20, "{passed} bytes of 100 MiB passed home's interfaces: {text}");
}
