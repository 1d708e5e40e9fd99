//! A stream whose process moves between its home and rooms at any moment: its peer and the process
//! see every byte once, in order. All sockets are real; one thread drives them in a random order.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Connection, Speaker, pair, tcp, unix};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};
use relay::{Failed, Frame, HomeEnd, HomePump, RoomEnd, RoomPump, StreamError, StreamId};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Less than the greatest windows.
const UNDER_WAY_MAX: u64 = 30_000;

/// A process, its peer, and what lies between.
struct World {
    peer: OwnedFd,
    socket: Arc<OwnedFd>,
    /// The process' end of the pair, while the process is away.
    process: Option<OwnedFd>,
    room: RoomPump,
    home: HomePump,
    to_home: VecDeque<Vec<u8>>,
    to_room: VecDeque<Vec<u8>>,
    id: StreamId,
    window: u32,
    moves: u32,
}

impl World {
    fn new(connection: Connection, window: u32) -> World {
        let Connection { peer, socket } = connection;
        World {
            peer,
            socket: Arc::new(socket),
            process: None,
            room: RoomPump::new(UNDER_WAY_MAX).unwrap(),
            home: HomePump::new(UNDER_WAY_MAX).unwrap(),
            to_home: VecDeque::new(),
            to_room: VecDeque::new(),
            id: StreamId { standin: 1, epoch: 0 },
            window,
            moves: 0,
        }
    }

    /// Where the process reads and writes.
    fn of_process(&self) -> &OwnedFd {
        self.process.as_ref().unwrap_or(&self.socket)
    }

    fn turn(&mut self) {
        let over = self.room.turn();
        assert!(self.home.turn().is_empty());
        self.send();
        self.end(over);
        // The process' shutdown(2), which home makes for it.
        if self.home.get(self.id).is_some_and(|end| end.has_all()) {
            // A connection that both have closed is gone already.
            let _ = rustix::net::shutdown(&*self.socket, Shutdown::Write);
        }
    }

    fn send(&mut self) {
        self.to_home.extend(std::iter::from_fn(|| self.room.take_frame()));
        self.to_room.extend(std::iter::from_fn(|| self.home.take_frame()));
    }

    fn deliver_home(&mut self) -> bool {
        let Some(bytes) = self.to_home.pop_front() else { return false };
        let (id, frame) = Frame::decode(&bytes).unwrap();
        assert!(self.home.obey(id, frame).is_empty());
        self.send();
        true
    }

    fn deliver_room(&mut self) -> bool {
        let Some(bytes) = self.to_room.pop_front() else { return false };
        let (id, frame) = Frame::decode(&bytes).unwrap();
        let over = self.room.obey(id, frame);
        self.send();
        self.end(over);
        true
    }

    /// A stream that is over in the room is home's again, or closed.
    fn end(&mut self, over: Vec<Failed>) {
        for (id, why) in over {
            match why {
                _ if id != self.id || self.room.get(id).is_none() => {}
                StreamError::Ended => self.come_home().unwrap(),
                StreamError::Closed => drop(self.room.remove(id, |_, _| Ok(()))),
                other => panic!("{other}"),
            }
        }
    }

    fn leave_home(&mut self) -> Result<(), StreamError> {
        let (process, end) = pair();
        self.id.epoch += 1;
        self.moves += 1;
        self.home.add(self.id, HomeEnd::new(self.socket.clone(), self.window))?;
        self.room.add(self.id, RoomEnd::new(end, self.window)?)?;
        self.process = Some(process);
        Ok(())
    }

    fn come_home(&mut self) -> Result<(), StreamError> {
        self.moves += 1;
        let process = self.process.take().unwrap();
        let unread = os::streams::unread_bytes(process.as_fd())?;
        self.room.remove(self.id, |end, turn| end.send_all(unread, turn))?;
        self.send();
        while self.deliver_home() {}
        let end = self.home.remove(self.id, |end, _| end.settle())?.unwrap();
        assert_eq!(end.waiting_bytes(), 0);
        if end.has_all() {
            let _ = rustix::net::shutdown(&*self.socket, Shutdown::Write);
        }
        Ok(())
    }
}

/// The next act, and its size in bytes.
#[derive(Clone, Copy, Debug)]
struct Step {
    act: u8,
    much: usize,
}

fn act(world: &mut World, process: &mut Speaker, peer: &mut Speaker, step: Step) {
    let much = step.much;
    match step.act {
        0 => {
            process.say(world.of_process(), much as u64);
            if process.is_shut && world.process.is_some() {
                assert!(world.room.act(world.id, |end, turn| end.shut(turn)).is_none());
            }
        }
        1 => process.hear(world.of_process(), much),
        2 => peer.say(&world.peer, much as u64),
        3 => peer.hear(&world.peer, much),
        4 => world.turn(),
        5 => drop(world.deliver_home()),
        6 => drop(world.deliver_room()),
        _ if world.process.is_some() => world.come_home().unwrap(),
        // A socket that the process has shut cannot be a pair again.
        _ if process.is_shut || process.heard_end => {}
        _ => world.leave_home().unwrap(),
    }
}

/// Gives how often the process moved.
fn run(connection: Connection, window: u32, steps: &[Step]) -> u32 {
    let mut world = World::new(connection, window);
    let (mut process, mut peer) = (Speaker::new(100_000), Speaker::new(150_000));
    let begun = Instant::now();
    for step in steps.iter().cycle() {
        act(&mut world, &mut process, &mut peer, *step);
        if process.is_shut && peer.is_shut && process.heard_end && peer.heard_end {
            break;
        }
        // The same steps again and again may not lead anywhere: all of them do.
        (0..7).for_each(|n| act(&mut world, &mut process, &mut peer, Step { act: n, much: 900 }));
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{} {} of the process, {} {} of its peer",
            process.said,
            process.heard,
            peer.said,
            peer.heard
        );
    }
    assert_eq!((process.heard, peer.heard), (peer.says, process.says));
    world.moves
}

/// Streams of these kinds, with windows and steps at random. Gives how often their processes moved.
fn run_many(connect: fn() -> Connection) -> u32 {
    let moves = Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 40, max_shrink_iters: 0, ..Config::default() });
    let step = (0_u8..8, 1_usize..9000).prop_map(|(act, much)| Step { act, much });
    let steps = proptest::collection::vec(step, 1..60);
    let done = runner.run(&(200_u32..100_000, steps), |(window, steps)| {
        moves.set(moves.get() + run(connect(), window, &steps));
        Ok(())
    });
    done.unwrap();
    moves.get()
}

#[test]
fn tcp_streams_survive_moves() {
    assert_moved(run_many(tcp));
}

#[test]
fn unix_streams_survive_moves() {
    assert_moved(run_many(unix));
}

/// A peer that does not read stops a process that writes, and memory stays bounded.
#[test]
fn a_slow_reader_stops_its_writer() {
    let mut world = World::new(tcp(), 10_000);
    world.leave_home().unwrap();
    let mut process = Speaker::new(u64::MAX);
    let mut before = u64::MAX;
    while process.said != before {
        before = process.said;
        for _ in 0..200 {
            process.say(world.of_process(), 100_000);
            world.turn();
            while world.deliver_home() {}
            while world.deliver_room() {}
        }
    }
    assert!(world.home.get(world.id).unwrap().waiting_bytes() <= 10_000);
    assert!(process.said > 10_000);
}

/// The true socket's error stays in it, for the process to find.
#[test]
fn an_error_stays_at_home() {
    let mut world = World::new(tcp(), 10_000);
    world.leave_home().unwrap();
    rustix::net::send(&world.peer, b"last", SendFlags::empty()).unwrap();
    let mut process = Speaker::new(4);
    process.say(world.of_process(), 4);
    world.turn();
    while world.deliver_home() {}
    // Bytes that the peer has not read make its close a reset.
    let (peer, _) = pair();
    drop(std::mem::replace(&mut world.peer, peer));
    let begun = Instant::now();
    while !world.to_room.iter().any(|bytes| Frame::decode(bytes).is_ok_and(|(_, frame)| frame == Frame::Fault)) {
        world.turn();
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let mut bytes = [0; 9];
    let (n, _) = rustix::net::recv(&*world.socket, &mut bytes[..], RecvFlags::DONTWAIT).unwrap();
    assert_eq!(bytes[..n], *b"last");
    assert_eq!(rustix::net::recv(&*world.socket, &mut bytes[..], RecvFlags::DONTWAIT), Err(Errno::CONNRESET));
}

/// The home end writes bytes of a process that closed its socket at once.
#[test]
fn bytes_of_a_process_that_ended_arrive() {
    let mut world = World::new(tcp(), 100);
    world.leave_home().unwrap();
    let mut process = Speaker::new(5000);
    process.say(world.of_process(), 5000);
    drop(world.process.take());
    let mut peer = Speaker::new(0);
    let begun = Instant::now();
    while peer.heard < 5000 {
        world.turn();
        while world.deliver_home() {}
        while world.deliver_room() {}
        peer.hear(&world.peer, 700);
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", peer.heard);
    }
    assert!(world.room.get(world.id).is_none());
}

/// Failed before: a process that had read all of its bytes, and closed its end at once, reset its
/// peer.
#[test]
fn a_process_that_has_read_all_closes_without_a_reset() {
    let mut world = World::new(unix(), 10_000);
    world.leave_home().unwrap();
    rustix::net::send(&world.peer, b"all", SendFlags::empty()).unwrap();
    let begun = Instant::now();
    let mut bytes = [0; 9];
    while rustix::net::recv(world.of_process(), &mut bytes[..], RecvFlags::DONTWAIT) == Err(Errno::AGAIN) {
        world.turn();
        while world.deliver_room() {}
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    drop(world.process.take());
    while world.room.get(world.id).is_some() {
        world.turn();
    }
    while world.deliver_home() {}
    drop(world.home.remove(world.id, |end, _| end.settle()).unwrap());
    let (other, _) = pair();
    drop(std::mem::replace(&mut world.socket, Arc::new(other)));
    assert_eq!(rustix::net::recv(&world.peer, &mut bytes[..], RecvFlags::DONTWAIT), Ok((0, 0)));
}

fn assert_moved(moves: u32) {
    assert!(moves > 150, "{moves} moves");
}
