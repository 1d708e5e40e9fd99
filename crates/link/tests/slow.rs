//! Frames of any size over a link that carries them in small pieces.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;
use wire::Kind;

const PIECE_BYTES: usize = 1000;

/// A way to there, which hands on what comes at most so much at once.
fn by_pieces(there: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let from = listener.accept().unwrap().0;
        let to = TcpStream::connect(there).unwrap();
        let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
        std::thread::spawn(move || hand_on(back.0, back.1));
        hand_on(from, to);
    });
    here
}

fn hand_on(mut from: TcpStream, mut to: TcpStream) {
    to.set_nodelay(true).unwrap();
    let mut piece = [0; PIECE_BYTES];
    while let Ok(n) = from.read(&mut piece) {
        if n == 0 || to.write_all(&piece[..n]).is_err() {
            break;
        }
        // So that who reads there is woken as early as it lets itself be.
        std::thread::sleep(Duration::from_micros(10));
    }
    to.shutdown(std::net::Shutdown::Both).ok();
}

/// Who waits for more than is still to come waits for ever: a part of it may be here, not yet decrypted.
#[test]
fn no_more_is_waited_for_than_comes() {
    let dir = tempfile::tempdir().unwrap();
    let name = identity::NodeName::new("n1").unwrap();
    let node = identity::init(dir.path(), &name).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(by_pieces(listener.local_addr().unwrap())).unwrap();
    let server = node.server_config();
    let (done, receives) = mpsc::channel();
    std::thread::spawn(move || {
        let mut receiver = link::accept(listener.accept().unwrap().0, server).unwrap().1;
        let mut body = Vec::new();
        while let Ok(head) = receiver.receive(&mut body) {
            done.send((head.seq, body.clone())).unwrap();
        }
    });
    let (sender, _, _) = link::connect(socket, node.client_config(), identity::server_name(&name).unwrap()).unwrap();
    for (seq, bytes) in (120 << 10..280 << 10).step_by(4 << 10).enumerate() {
        let sent: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        sender.send(Kind::Message, 0, seq as u64, &[&sent]).unwrap();
        let (got_seq, got) = receives.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(got_seq == seq as u64 && got == sent, "frame {seq} of {bytes} bytes");
    }
}
