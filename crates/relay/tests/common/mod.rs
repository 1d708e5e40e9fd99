//! Those who speak through streams, and their connections.
#![allow(dead_code, reason = "each test program uses a part")]

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use std::cell::Cell;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// One who writes numbers that the other one expects.
pub struct Speaker {
    pub said: u64,
    pub heard: u64,
    pub says: u64,
    pub is_shut: bool,
    pub heard_end: bool,
}

impl Speaker {
    pub fn new(says: u64) -> Speaker {
        Speaker { said: 0, heard: 0, says, is_shut: false, heard_end: false }
    }

    pub fn byte(at: u64) -> u8 {
        (at ^ (at >> 8) ^ (at >> 16)) as u8
    }

    pub fn say(&mut self, socket: &OwnedFd, most: u64) {
        let bytes: Vec<u8> = (self.said..(self.said + most).min(self.says)).map(Speaker::byte).collect();
        if !bytes.is_empty() {
            match rustix::net::send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => self.said += n as u64,
                Err(e) => assert_eq!(e, Errno::AGAIN),
            }
        }
        if self.said == self.says && !self.is_shut {
            self.is_shut = true;
            rustix::net::shutdown(socket, Shutdown::Write).unwrap();
        }
    }

    pub fn hear(&mut self, socket: &OwnedFd, most: usize) {
        let mut bytes = vec![0; most];
        match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.heard_end = true,
            Ok((n, _)) => {
                let expected: Vec<u8> = (self.heard..self.heard + n as u64).map(Speaker::byte).collect();
                assert_eq!(bytes[..n], expected, "behind {}", self.heard);
                self.heard += n as u64;
            }
            Err(e) => assert_eq!(e, Errno::AGAIN),
        }
    }
}

pub fn tcp() -> Connection {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    one.set_nodelay(true).unwrap();
    Connection { peer: one.into(), socket: other.into() }
}

pub fn unix() -> Connection {
    let (peer, socket) = pair();
    Connection { peer, socket }
}

pub fn pair() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
}

/// A connection: its peer's socket, and the process'.
pub struct Connection {
    pub peer: OwnedFd,
    pub socket: OwnedFd,
}

/// The next act, and its size in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub act: u8,
    pub much: usize,
}

/// Runs `cases` random sequences of so many kinds of acts. `run` gives how often the streams left
/// home: more than five times in all, or the test says nothing.
pub fn run_many(cases: u32, acts: u8, run: impl Fn(&[Step]) -> u32) {
    let short_cuts = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 0, ..Config::default() });
    let step = (0..acts, 1_usize..9000).prop_map(|(act, much)| Step { act, much });
    let done = runner.run(&proptest::collection::vec(step, 1..60), |steps| {
        short_cuts.set(short_cuts.get() + run(&steps));
        Ok(())
    });
    done.unwrap();
    assert!(short_cuts.get() > 5, "{} times", short_cuts.get());
}
