//! Two processes of two rooms that talk to each other: their bytes go from room to room, and home
//! again, at any moment, and both see every byte once, in order.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Connection, Speaker, Step, pair, run_many, tcp, unix};
use relay::{AcrossTo, Frame, HomeEnd, HomePump, Part, RoomEnd, RoomPump, StreamId};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WINDOW: u32 = 20_000;
const SAID_BYTES: u64 = 60_000;

/// One of the two processes, its room, and the home of that room.
struct Side {
    /// The true socket.
    socket: Arc<OwnedFd>,
    /// The process' end of the pair.
    process: OwnedFd,
    id: StreamId,
    room: RoomPump,
    home: HomePump,
    to_home: VecDeque<Vec<u8>>,
    to_room: VecDeque<Vec<u8>>,
    /// Frames for the other side's room.
    across: VecDeque<Vec<u8>>,
    is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Apart,
    Holding,
    /// The second room is to be ready for the first one.
    Awaiting,
    Across,
}

struct World {
    sides: [Side; 2],
    state: State,
    way: u64,
    crossings: u32,
    /// Bytes that homes took while the bytes went from room to room.
    home_bytes: u64,
}

impl World {
    fn new(connection: Connection) -> World {
        let mut world = World {
            sides: [connection.socket, connection.peer].map(|socket| Side {
                socket: Arc::new(socket),
                process: pair().0,
                id: StreamId { standin: 0, epoch: 0 },
                room: RoomPump::new(1 << 20).unwrap(),
                home: HomePump::new(1 << 20).unwrap(),
                to_home: VecDeque::new(),
                to_room: VecDeque::new(),
                across: VecDeque::new(),
                is_told: false,
            }),
            state: State::Apart,
            way: 0,
            crossings: 0,
            home_bytes: 0,
        };
        world.sides.iter_mut().zip(1..).for_each(|(side, standin)| side.open(standin));
        world
    }

    fn turn(&mut self) {
        for side in &mut self.sides {
            assert!(side.room.turn().is_empty());
            assert!(side.home.turn().is_empty());
        }
        self.send();
        self.cross_if_quiet();
    }

    fn send(&mut self) {
        let is_across = self.state == State::Across && self.sides.iter().all(|side| side.room.is_across(side.id));
        for side in &mut self.sides {
            while let Some(frame) = side.room.take_frame() {
                self.home_bytes += if is_across { frame.len() as u64 } else { 0 };
                side.to_home.push_back(frame);
            }
            side.to_room.extend(std::iter::from_fn(|| side.home.take_frame()));
            side.across.extend(std::iter::from_fn(|| side.room.take_across().map(|(_, frame)| frame)));
        }
    }

    fn deliver_home(&mut self, at: usize) -> bool {
        let side = &mut self.sides[at];
        let Some(bytes) = side.to_home.pop_front() else { return false };
        let (id, frame) = Frame::decode(&bytes).unwrap();
        if frame == Frame::Crossed {
            if self.state == State::Awaiting {
                self.state = State::Across;
                self.crossings += 1;
                let [first, second] = &mut self.sides;
                first.act_home(|end, _| {
                    end.cross();
                    Ok(())
                });
                first.home.say(first.id, Frame::Across(second.id));
            }
        } else {
            let failed = side.home.obey(id, frame);
            assert!(failed.is_empty(), "{failed:?}");
        }
        if let Frame::Parted(taken) = frame {
            self.tell_parted(at, Part { taken });
        }
        self.send();
        true
    }

    /// Has one home tell the other one that its room parted.
    fn tell_parted(&mut self, own: usize, part: Part) {
        self.sides[own].is_told = true;
        let other = &mut self.sides[1 - own];
        if self.state == State::Awaiting {
            // The first room was told nothing yet.
            self.state = State::Apart;
            other.act_home(|end, turn| {
                end.release(turn);
                Ok(())
            });
            self.sides[own].act_home(|end, turn| end.peer_parted(Some(Part { taken: 0 }), turn));
        } else {
            if !other.is_told {
                other.home.say(other.id, Frame::Part);
            }
            other.act_home(|end, turn| end.peer_parted(Some(part), turn));
        }
        if self.state == State::Across && self.sides.iter().all(|side| side.is_told) {
            self.state = State::Apart;
        }
        if self.state == State::Apart {
            self.sides.iter_mut().for_each(|side| side.is_told = false);
        }
    }

    fn deliver_room(&mut self, at: usize) -> bool {
        let way = self.way;
        let side = &mut self.sides[at];
        let Some(bytes) = side.to_room.pop_front() else { return false };
        let (id, frame) = Frame::decode(&bytes).unwrap();
        match frame {
            Frame::Across(peer) if side.room.cross(id, AcrossTo { way, peer }, true) => {}
            Frame::Across(_) => {
                side.room.say(id, Frame::Received(0));
                side.room.say(id, Frame::Parted(0));
            }
            Frame::Await(peer) if side.room.cross(id, AcrossTo { way, peer }, false) => {
                side.room.say(id, Frame::Crossed);
            }
            Frame::Await(_) => {
                side.room.say(id, Frame::Received(0));
                side.room.say(id, Frame::Parted(0));
            }
            Frame::Part => assert!(side.room.part(id).is_none()),
            frame => {
                let words = format!("{frame:?}").chars().take(60).collect::<String>();
                let failed = side.room.obey(id, frame);
                assert!(failed.is_empty(), "{words}: {failed:?}");
            }
        }
        self.send();
        true
    }

    fn deliver_across(&mut self, from: usize) -> bool {
        let Some(bytes) = self.sides[from].across.pop_front() else { return false };
        let (id, frame) = Frame::decode(&bytes).unwrap();
        let failed = self.sides[1 - from].room.obey_across(self.way, id, frame);
        assert!(failed.is_empty(), "{failed:?}");
        self.send();
        true
    }

    fn hold(&mut self) {
        if self.state == State::Apart && !self.sides.iter().any(|side| side.is_crossing()) {
            self.state = State::Holding;
            self.sides.iter_mut().for_each(|side| {
                side.act_home(|end, turn| {
                    end.hold(turn);
                    Ok(())
                });
            });
            self.send();
        }
    }

    fn cross_if_quiet(&mut self) {
        if self.state != State::Holding {
            return;
        }
        if [0, 1, 0].iter().all(|at| self.sides[*at].is_quiet()) {
            self.state = State::Awaiting;
            let [first, second] = &mut self.sides;
            second.act_home(|end, _| {
                end.cross();
                Ok(())
            });
            second.home.say(second.id, Frame::Await(first.id));
        }
        self.send();
    }

    /// The way between the two rooms breaks.
    fn cut(&mut self) {
        let way = self.way;
        for side in &mut self.sides {
            assert!(side.room.part_all(way).is_empty());
        }
        self.send();
        self.sides.iter_mut().for_each(|side| side.across.clear());
        self.way += 1;
    }

    /// A process leaves its room, and comes again.
    fn go(&mut self, at: usize) {
        while self.deliver_room(at) || self.deliver_home(at) {}
        if self.state == State::Holding {
            self.state = State::Apart;
            self.sides.iter_mut().for_each(|side| {
                side.act_home(|end, turn| {
                    end.release(turn);
                    Ok(())
                });
            });
        }
        let side = &mut self.sides[at];
        assert!(side.room.part(side.id).is_none());
        let unread = os::streams::unread_bytes(side.process.as_fd()).unwrap();
        side.room.remove(side.id, |end, turn| end.send_all(unread, turn)).unwrap();
        self.send();
        while self.deliver_home(at) {}
        let begun = Instant::now();
        while !self.sides[at].is_settled() {
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", self.state);
            self.turn();
            while self.deliver_room(1 - at) || self.deliver_home(1 - at) {}
        }
        if self.state == State::Awaiting {
            // The first one has left before its room was told.
            self.sides[1].act_home(|end, turn| end.peer_parted(Some(Part { taken: 0 }), turn));
            let second = &mut self.sides[1];
            second.home.say(second.id, Frame::Part);
            self.state = State::Apart;
            self.send();
            while self.deliver_room(1) || self.deliver_home(1) {}
        }
        let side = &mut self.sides[at];
        let end = side.home.remove(side.id, |end, _| end.settle()).unwrap().unwrap();
        assert_eq!(end.waiting_bytes(), 0);
        side.to_room.clear();
        while side.home.take_frame().is_some() {}
        side.open(side.id.standin);
        self.send();
    }
}

impl Side {
    fn open(&mut self, standin: u32) {
        let (process, end) = pair();
        self.id = StreamId { standin, epoch: self.id.epoch + 1 };
        self.process = process;
        self.is_told = false;
        self.home.add(self.id, HomeEnd::new(self.socket.clone(), WINDOW)).unwrap();
        self.room.add(self.id, RoomEnd::new(end, WINDOW).unwrap()).unwrap();
    }

    fn act_home(&mut self, act: impl FnOnce(&mut HomeEnd, &mut relay::Turn<'_>) -> Result<(), relay::StreamError>) {
        let failed = self.home.act(self.id, act);
        assert!(failed.is_none(), "{failed:?}");
    }

    fn is_crossing(&self) -> bool {
        self.home.get(self.id).is_some_and(HomeEnd::is_crossing)
    }

    fn is_quiet(&mut self) -> bool {
        let mut is_quiet = false;
        self.act_home(|end, turn| {
            is_quiet = end.is_quiet(turn);
            Ok(())
        });
        is_quiet
    }

    fn is_settled(&mut self) -> bool {
        let mut is_settled = false;
        self.act_home(|end, _| {
            is_settled = end.is_settled();
            Ok(())
        });
        is_settled
    }
}

/// Gives how often the bytes began to go from room to room.
fn run(connection: Connection, steps: &[Step]) -> u32 {
    let mut world = World::new(connection);
    // They never shut their directions: their streams part before.
    let mut speakers = [Speaker::new(u64::MAX), Speaker::new(u64::MAX)];
    let begun = Instant::now();
    for step in steps.iter().cycle() {
        let at = usize::from(step.act % 2);
        match step.act / 2 {
            0 if speakers[at].said < SAID_BYTES => speakers[at].say(&world.sides[at].process, step.much as u64),
            0 | 1 => speakers[at].hear(&world.sides[at].process, step.much),
            2 => world.turn(),
            3 => drop(world.deliver_home(at)),
            4 => drop(world.deliver_room(at)),
            5 | 6 => drop(world.deliver_across(at)),
            7 => world.hold(),
            // Moves and cuts are rarer than all else.
            8 if step.much < 2000 => world.go(at),
            9 if step.much < 1000 => world.cut(),
            _ => world.turn(),
        }
        if speakers.iter().all(|speaker| speaker.said >= SAID_BYTES)
            && speakers[0].heard == speakers[1].said
            && speakers[1].heard == speakers[0].said
        {
            break;
        }
        if begun.elapsed() > Duration::from_millis(200) {
            // The same steps again and again may not lead anywhere.
            world.turn();
            for at in [0, 1] {
                while world.deliver_home(at) || world.deliver_room(at) || world.deliver_across(at) {}
            }
            for (speaker, side) in speakers.iter_mut().zip(&world.sides) {
                speaker.hear(&side.process, 5000);
                if speaker.said < SAID_BYTES {
                    speaker.say(&side.process, 5000);
                }
            }
        }
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?} {:?} {:?}",
            world.state,
            world.sides.each_ref().map(|s| (s.is_told, s.room.is_across(s.id), s.is_crossing())),
            [0, 1].map(|n| (speakers[n].said, speakers[n].heard))
        );
    }
    assert_eq!(world.home_bytes, 0);
    world.crossings
}

/// A room that sends a whole window home again hears that home has taken it, though nothing happens
/// to the true socket any more.
#[test]
fn a_full_window_that_comes_home_is_taken() {
    let mut world = World::new(unix());
    let mut speaker = Speaker::new(u64::MAX);
    let begun = Instant::now();
    let is_late = || begun.elapsed() > Duration::from_secs(5);
    world.hold();
    while world.state != State::Across || !world.sides[0].room.is_across(world.sides[0].id) {
        assert!(!is_late());
        world.turn();
        (0..2).for_each(|at| while world.deliver_room(at) || world.deliver_home(at) {});
    }
    while world.deliver_across(0) || world.deliver_across(1) {}
    speaker.say(&world.sides[0].process, 3 * u64::from(WINDOW));
    world.turn();
    world.cut();
    while os::streams::unread_bytes(world.sides[1].socket.as_fd()).unwrap() < 2 * WINDOW as usize {
        assert!(!is_late(), "{:?}", os::streams::unread_bytes(world.sides[1].socket.as_fd()));
        world.turn();
        (0..2).for_each(|at| while world.deliver_home(at) || world.deliver_room(at) {});
    }
}

#[test]
fn tcp_streams_go_from_room_to_room() {
    run_many(40, 20, |steps| run(tcp(), steps));
}

#[test]
fn unix_streams_go_from_room_to_room() {
    run_many(40, 20, |steps| run(unix(), steps));
}
