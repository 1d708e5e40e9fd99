//! A peer outside of all rooms talks with a process that is moved: hashes and addresses.

use std::process::{Command, Stdio};

use crate::{at_home_within, common, shared};

/// `talk.py SIDE FAMILY MIB [ADDRESS]`: both sides send and take so many MiB at once. The moved
/// side asks for the addresses of both ends after each MiB, and goes on until there is a file
/// `end`.
const TALK: &str = r#"
import hashlib, os, socket, sys, threading, time
side, family, least = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
kind = socket.AF_INET if family == "tcp" else socket.AF_UNIX
name = (sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1", 5401) if family == "tcp" else "name"
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

/// Moves the process at home that talks, which is job `python3 talk.py connect` with these
/// arguments. The output of both sides is in the files `said` and `peer`.
fn moved(arguments: &str) -> String {
    format!(
        r#"
        job python3 talk.py connect {arguments}; until_ '[ -s task.0 ]'
        for to in n2 n3 home n4 n2; do goes_on; tern move $(cat task.0) $to || exit 1; done
        goes_on; touch end; wait $job; echo "status $?"; cat errors; echo $(cat said)"#
    )
}

/// Checks what the moved process and its peer printed.
fn check(text: &str, peer: &str, family: &str) {
    let Some(("status 0", here)) = text.split_once('\n') else { panic!("{text}") };
    let words = |line: &str| line.trim().rsplitn(3, ' ').map(str::to_owned).collect::<Vec<_>>();
    let (here, there) = (words(here), words(peer));
    assert_eq!((&here[0], &here[1]), (&there[1], &there[0]), "what came and what was sent: {text} {peer}");
    // One pair of ends on each side: (own, peer's).
    assert!(here[2].matches("((").count() + here[2].matches("('', ").count() == 1, "{text}");
    if family == "tcp" {
        let ports = |side: &str| side.split(['(', ')', ',', ' ', '\'']).filter_map(|w| w.parse::<u16>().ok()).collect();
        let (mut own, peers): (Vec<u16>, Vec<u16>) = (ports(&here[2]), ports(&there[2]));
        own.reverse();
        assert_eq!(own, peers, "{text} {peer}");
    }
}

/// The time for so many bytes each way, on a slow machine that does other things.
fn limit_s(mib: u32) -> u32 {
    170 + mib
}

fn talks(family: &str, mib: u32) {
    let moved = moved(&format!("{family} {mib}"));
    let text = at_home_within(
        &shared(),
        limit_s(mib),
        &format!(
            r#"
        cat > talk.py <<'END'{TALK}END
        python3 talk.py listen {family} {mib} > peer 2>> errors & peer=$!
        until_ '[ -e listens ]'
        {moved}
        wait $peer && echo $(cat peer)"#
        ),
    )
    .text();
    let (text, peer) = text.rsplit_once('\n').unwrap_or_default();
    check(text, peer, family);
}

/// The peer is a program in the network of n4, of which no tern knows.
fn talks_with_another_machine(mib: u32) {
    let lab = shared();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("talk.py"), TALK).unwrap();
    let address = lab.state().node("n4").unwrap().address.to_string();
    let mut peer = Command::new("timeout");
    let limit = limit_s(mib).to_string();
    peer.args([&limit, "python3", "talk.py", "listen", "tcp", &mib.to_string(), &address]).stdout(Stdio::piped());
    let peer = lab.in_network("n4", || peer.current_dir(&directory).spawn()).unwrap().unwrap();
    common::eventually("the peer listens", || directory.path().join("listens").exists());
    let moved = moved(&format!("tcp {mib} {address}"));
    let text = at_home_within(&lab, limit_s(mib), &format!("cat > talk.py <<'END'{TALK}END\n{moved}")).text();
    let there = peer.wait_with_output().unwrap();
    let there: Vec<&str> = std::str::from_utf8(&there.stdout).unwrap().lines().collect();
    check(&text, &there.join(" "), "tcp");
}

#[test]
fn a_peer_on_another_machine_sees_one_tcp_connection() {
    talks_with_another_machine(200);
}

#[test]
#[ignore = "a GiB each way: --full"]
fn a_peer_on_another_machine_sees_one_tcp_connection_of_a_gib() {
    talks_with_another_machine(1024);
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
