//! Frames over a link that delivers them in pieces.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use identity::{Identity, NodeName};
use link::{Receiver, Sender};
use room_protocol::Kind;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a proxy on the way passes on.
struct Gate {
    /// The largest piece that it passes on at once.
    piece_bytes: usize,
    /// The pause between pieces, so that the reader is woken as early as it allows.
    pause: Duration,
    /// The number of bytes that may still pass.
    bytes: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    fn new(piece_bytes: usize, pause: Duration) -> Arc<Gate> {
        Arc::new(Gate { piece_bytes, pause, bytes: Mutex::new(usize::MAX), changed: Condvar::new() })
    }

    fn open(&self, bytes: usize) {
        *self.bytes.lock().unwrap() = bytes;
        self.changed.notify_all();
    }

    /// Waits until all bytes that may pass have passed.
    fn await_closed(&self) {
        let (bytes, late) = self.changed.wait_timeout_while(self.bytes.lock().unwrap(), PATIENCE, |b| *b > 0).unwrap();
        assert!(!late.timed_out(), "{bytes} bytes more may go");
    }

    /// Starts a proxy before `there`, and gives its address.
    fn before(self: &Arc<Gate>, there: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let gate = self.clone();
        std::thread::spawn(move || {
            let from = listener.accept().unwrap().0;
            let to = TcpStream::connect(there).unwrap();
            let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut &back.0, &mut &back.1));
            gate.hand_on(from, to);
        });
        here
    }

    fn hand_on(&self, mut from: TcpStream, mut to: TcpStream) {
        to.set_nodelay(true).unwrap();
        let mut piece = vec![0; self.piece_bytes];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            let mut rest = &piece[..n];
            while !rest.is_empty() {
                let may = *self.changed.wait_while(self.bytes.lock().unwrap(), |bytes| *bytes == 0).unwrap();
                let (now, later) = rest.split_at(rest.len().min(may));
                if to.write_all(now).is_err() {
                    return;
                }
                rest = later;
                *self.bytes.lock().unwrap() -= now.len();
                self.changed.notify_all();
                std::thread::sleep(self.pause);
            }
        }
        to.shutdown(std::net::Shutdown::Both).ok();
    }
}

fn node(dir: &tempfile::TempDir) -> Identity {
    identity::init(dir.path(), &NodeName::new("n1").unwrap()).unwrap()
}

fn linked(node: &Identity, gate: &Arc<Gate>) -> (Sender, Receiver) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(gate.before(listener.local_addr().unwrap())).unwrap();
    let server = node.server_config();
    let accepted = std::thread::spawn(move || link::accept(listener.accept().unwrap().0, server).unwrap().1);
    let (sender, _, _) =
        link::connect(socket, node.client_config(), identity::server_name(node.node()).unwrap()).unwrap();
    (sender, accepted.join().unwrap())
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

/// A receiver that waits for more bytes than are still to come waits for ever: a part of them may
/// be here, not yet decrypted. (Has failed that way.)
#[test]
fn no_more_is_waited_for_than_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, mut receiver) = linked(&node(&dir), &Gate::new(1000, Duration::from_micros(10)));
    let (done, receives) = mpsc::channel();
    std::thread::spawn(move || {
        let mut body = Vec::new();
        while let Ok(head) = receiver.receive(&mut body) {
            done.send((head.seq, body.clone())).unwrap();
        }
    });
    for (seq, bytes) in (120 << 10..280 << 10).step_by(4 << 10).enumerate() {
        let sent = content(bytes);
        sender.send(Kind::Message, 0, seq as u64, &[&sent]).unwrap();
        let (got_seq, got) = receives.recv_timeout(PATIENCE).unwrap();
        assert!(got_seq == seq as u64 && got == sent, "frame {seq} of {bytes} bytes");
    }
}

/// A call that waits in the kernel has already taken bytes. (Has failed with SO_RCVLOWAT: the
/// kernel only woke the call when as much again had arrived.)
#[test]
fn bytes_already_taken_are_not_waited_for() {
    const FIRST_BYTES: usize = 56 << 10;
    let dir = tempfile::tempdir().unwrap();
    let node = node(&dir);
    for bytes in (140 << 10..240 << 10).step_by(2 << 10) {
        let gate = Gate::new(1 << 20, Duration::ZERO);
        let (sender, mut receiver) = linked(&node, &gate);
        gate.open(FIRST_BYTES);
        let sent = content(bytes);
        sender.send(Kind::Message, 0, 1, &[&sent]).unwrap();
        gate.await_closed();
        let (done, receives) = mpsc::channel();
        std::thread::spawn(move || {
            let mut body = Vec::new();
            receiver.receive(&mut body).unwrap();
            done.send(body).unwrap();
        });
        // The call takes the present bytes before there are more. If the call comes later, this
        // test finds nothing.
        std::thread::sleep(Duration::from_millis(10));
        gate.open(usize::MAX);
        assert!(receives.recv_timeout(PATIENCE).is_ok_and(|got| got == sent), "a frame of {bytes} bytes");
    }
}
