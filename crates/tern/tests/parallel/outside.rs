//! A peer outside of all rooms talks with a process that is moved: hashes and addresses.

use crate::{at_home, shared};

/// `talk.py SIDE FAMILY MIB`: both sides send and take so many MiB at once. The moved side asks for
/// the addresses of both ends after each MiB, and goes on until there is a file `end`.
const TALK: &str = r#"
import hashlib, os, socket, sys, threading, time
side, family, least = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
kind = socket.AF_INET if family == "tcp" else socket.AF_UNIX
name = ("127.0.0.1", 5401) if family == "tcp" else "name"
if side == "listen":
    server = socket.socket(kind)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(name); server.listen(1); open("listens", "w").close()
    stream = server.accept()[0]
else:
    stream = socket.socket(kind); stream.connect(name)
    open("task.0", "w").write("%d\n" % os.getpid())
piece, sent, came, ends = 1 << 16, hashlib.sha1(), hashlib.sha1(), set()
over = False
def is_enough(): return os.path.exists("end") if side == "connect" else over
def send():
    at = 0
    while at < least or not is_enough():
        block = (hashlib.sha1(b"%s %d" % (side.encode(), at)).digest() * (piece // 20 + 1))[:piece]
        at += piece
        sent.update(block); stream.sendall(block)
        if at % (1 << 20) == 0: ends.add((stream.getsockname(), stream.getpeername()))
    stream.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send); sender.start()
taken = 0
while data := stream.recv(piece):
    came.update(data); taken += len(data)
    if side == "connect": open("rounds", "w").write(str(taken >> 16))
over = True
sender.join()
print(*sorted(ends), sent.hexdigest(), came.hexdigest(), sep="\n", flush=True)
"#;

fn talks(family: &str, mib: u32) {
    let lab = shared();
    let text = at_home(
        &lab,
        &format!(
            r#"
        cat > talk.py <<'END'{TALK}END
        python3 talk.py listen {family} {mib} > peer 2> errors & peer=$!
        until_ '[ -e listens ]'
        job python3 talk.py connect {family} {mib}; until_ '[ -s task.0 ]'
        for to in n2 n3 home n4 n2; do goes_on; tern move $(cat task.0) $to || exit 1; done
        goes_on; touch end; wait $job && wait $peer; echo "status $?"; cat errors
        echo $(cat said); echo $(cat peer)"#
        ),
    )
    .text();
    let lines: Vec<&str> = text.lines().collect();
    let [status, here, there] = lines[..] else { panic!("{text}") };
    assert_eq!(status, "status 0");
    let words = |line: &str| line.rsplitn(3, ' ').map(str::to_owned).collect::<Vec<_>>();
    let (here, there) = (words(here), words(there));
    assert_eq!((&here[0], &here[1]), (&there[1], &there[0]), "what came and what was sent: {text}");
    // One pair of ends on each side: (own, peer's).
    assert!(here[2].matches("((").count() + here[2].matches("('', ").count() == 1, "{text}");
    if family == "tcp" {
        let ports = |side: &str| side.split(['(', ')', ',', ' ', '\'']).filter_map(|w| w.parse::<u16>().ok()).collect();
        let (mut own, peers): (Vec<u16>, Vec<u16>) = (ports(&here[2]), ports(&there[2]));
        own.reverse();
        assert_eq!(own, peers, "{text}");
    }
}

#[test]
fn a_peer_at_home_sees_one_tcp_connection() {
    talks("tcp", 16);
}

#[test]
fn a_peer_at_home_sees_one_unix_connection() {
    talks("unix", 16);
}

#[test]
#[ignore = "a GiB each way: --full"]
fn a_peer_at_home_sees_one_tcp_connection_of_a_gib() {
    talks("tcp", 1024);
}
