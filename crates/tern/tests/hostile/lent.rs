//! Pages of another user's process are nobody's to read.

use control_protocol::moves::{MoveOptions, Sibling};
use control_protocol::tool::Request;

use crate::support::{PYTHON, Victim, alone, at_home, shared};

/// Asks the daemon for what the hexadecimal packet says, and shows the words of the answer.
const ASK: &str = "import os, re, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect('/run/tern/ternd.sock')
s.send(bytes.fromhex(sys.argv[1]))
print(re.findall(rb'[ -~]{8,}', s.recv(1 << 16)))";

/// A user has an own process move that is said to be like another user's: the room would fetch the
/// memory of that one.
#[test]
fn nobody_has_another_users_pages_fetched() {
    let _alone = alone();
    let lab = shared();
    let (victim, own) = (Victim::start(&lab, 2011), Victim::start(&lab, 2012));
    let moved = at_home(&lab, &format!("tern move {} n2", victim.pid));
    assert!(moved.status.success(), "{}", moved.errors());
    let ask = |like: i32| {
        let like = Some(Sibling { pid: like, node: "n2".into() });
        let request = Request::Move { pid: own.pid, to: Some("n3".into()), wish: MoveOptions::default(), like };
        let bytes = control_protocol::codec::encode(&request, 4096).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        at_home(&lab, &format!("as_user 2012 {PYTHON} -c \"{ASK}\" {hex}")).text()
    };
    let answer = ask(victim.pid);
    assert!(answer.contains("another user's process"), "{answer}");
    // Its own would do, although it is at home and lends nothing.
    let answer = ask(own.pid);
    assert!(!answer.contains("another user"), "{answer}");
    assert!(victim.is_well() && own.is_well());
}
