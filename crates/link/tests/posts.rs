//! Frames that nobody waits for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use link::{Receiver, Sender};
use room_protocol::Kind;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

fn pair() -> (Arc<Sender>, Receiver) {
    let dir = tempfile::tempdir().unwrap();
    let name = identity::NodeName::new("n1").unwrap();
    let node = identity::init(dir.path(), &name).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = node.server_config();
    let accepting = std::thread::spawn(move || link::accept(listener.accept().unwrap().0, server).unwrap());
    let (sender, _, _) = link::connect(socket, node.client_config(), identity::server_name(&name).unwrap()).unwrap();
    (Arc::new(sender), accepting.join().unwrap().1)
}

/// Posted frames arrive though nothing follows them, and keep their order among all frames.
#[test]
fn posted_frames_arrive_in_their_order() {
    let (sender, mut receiver) = pair();
    sender.write_posts().unwrap();
    let mut body = Vec::new();
    for round in 0..20u64 {
        for n in 0..50 {
            sender.post(Kind::Behind, 1, n, &[&n.to_le_bytes()]).unwrap();
        }
        if round % 2 == 0 {
            sender.send(Kind::Message, 0, 50, &[b"after"]).unwrap();
        }
        for n in 0..50u64 {
            let head = receiver.receive(&mut body).unwrap();
            assert_eq!((head.kind, head.seq, &body[..]), (Kind::Behind, n, &n.to_le_bytes()[..]));
        }
        if round % 2 == 0 {
            assert_eq!(receiver.receive(&mut body).unwrap().kind, Kind::Message);
        }
    }
    drop(sender);
    assert!(receiver.receive(&mut body).is_err(), "the thread that writes holds no link open");
}
