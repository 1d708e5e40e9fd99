//! Two processes of one room that talk to each other: their streams are joined and split at any
//! moment, and both see every byte once, in order.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Connection, Speaker, Step, pair, run_many, tcp, unix};
use relay::{Frame, HomeEnd, HomePump, RoomEnd, RoomPump, SplitEnd, StreamId};
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WINDOW: u32 = 20_000;

/// One of the two processes.
struct Side {
    /// The true socket.
    socket: Arc<OwnedFd>,
    /// The process' end of the pair.
    process: OwnedFd,
    id: StreamId,
}

struct World {
    sides: [Side; 2],
    room: RoomPump,
    home: HomePump,
    to_home: VecDeque<Vec<u8>>,
    to_room: VecDeque<Vec<u8>>,
    is_holding: bool,
    joins: u32,
    /// Bytes that home took while the streams were joined.
    home_bytes: u64,
}

impl World {
    fn new(connection: Connection) -> World {
        let mut world = World {
            sides: [connection.socket, connection.peer].map(|socket| Side {
                socket: Arc::new(socket),
                process: pair().0,
                id: StreamId { standin: 0, epoch: 0 },
            }),
            room: RoomPump::new(1 << 20).unwrap(),
            home: HomePump::new(1 << 20).unwrap(),
            to_home: VecDeque::new(),
            to_room: VecDeque::new(),
            is_holding: false,
            joins: 0,
            home_bytes: 0,
        };
        world.open();
        world
    }

    fn open(&mut self) {
        for (standin, side) in (1..).zip(&mut self.sides) {
            let (process, end) = pair();
            side.id = StreamId { standin, epoch: side.id.epoch + 1 };
            side.process = process;
            self.home.add(side.id, HomeEnd::new(side.socket.clone(), WINDOW)).unwrap();
            self.room.add(side.id, RoomEnd::new(end, WINDOW).unwrap()).unwrap();
        }
    }

    fn is_joined(&self) -> bool {
        self.room.partner(self.sides[0].id).is_some()
    }

    fn turn(&mut self) {
        assert!(self.room.turn().is_empty());
        assert!(self.home.turn().is_empty());
        self.send();
        self.join_if_quiet();
    }

    fn send(&mut self) {
        let is_joined = self.is_joined();
        for frame in std::iter::from_fn(|| self.room.take_frame()) {
            self.home_bytes += if is_joined { frame.len() as u64 } else { 0 };
            self.to_home.push_back(frame);
        }
        self.to_room.extend(std::iter::from_fn(|| self.home.take_frame()));
    }

    fn deliver_home(&mut self) -> bool {
        let Some(bytes) = self.to_home.pop_front() else { return false };
        let (id, frame) = Frame::decode(&bytes).unwrap();
        let words = format!("{id:?} {frame:?}").chars().take(120).collect::<String>();
        let failed = self.home.obey(id, frame);
        assert!(failed.is_empty(), "{words}: {failed:?}");
        self.send();
        true
    }

    fn deliver_room(&mut self) -> bool {
        let Some(bytes) = self.to_room.pop_front() else { return false };
        let (id, frame) = Frame::decode(&bytes).unwrap();
        match frame {
            Frame::Join(other) => {
                let was_joined = self.is_joined();
                assert_eq!(self.room.join(id, other), !was_joined);
                self.joins += 1;
            }
            frame => assert!(self.room.obey(id, frame).is_empty()),
        }
        self.send();
        true
    }

    fn hold(&mut self) {
        if !self.is_holding && !self.is_joined() {
            self.is_holding = true;
            let ids = [self.sides[0].id, self.sides[1].id];
            for id in ids {
                self.home.act(id, |end, turn| {
                    end.hold(turn);
                    Ok(())
                });
            }
            self.send();
        }
    }

    fn join_if_quiet(&mut self) {
        let ids = [self.sides[0].id, self.sides[1].id];
        if !self.is_holding || self.is_joined() {
            return;
        }
        let quiet = ids.map(|id| {
            let mut is_quiet = false;
            assert!(
                self.home
                    .act(id, |end, turn| {
                        is_quiet = end.is_quiet(turn);
                        Ok(())
                    })
                    .is_none()
            );
            is_quiet
        });
        if quiet == [true, true] {
            self.home.say(ids[0], Frame::Join(ids[1]));
            self.is_holding = false;
        }
        self.send();
    }

    /// Both processes leave the room, and come again.
    fn move_both(&mut self) {
        while self.deliver_room() || self.deliver_home() {}
        if self.is_joined() {
            let [one, other] = [0, 1].map(|n| {
                let side = &self.sides[n];
                let mut in_pair = vec![0; os::streams::unread_bytes(side.process.as_fd()).unwrap()];
                if !in_pair.is_empty() {
                    let taken = rustix::net::recv(&side.process, &mut in_pair[..], RecvFlags::DONTWAIT);
                    assert_eq!(taken.unwrap().0, in_pair.len());
                }
                SplitEnd { id: side.id, in_pair }
            });
            self.room.split(one, other).unwrap();
        } else {
            for side in &self.sides {
                let unread = os::streams::unread_bytes(side.process.as_fd()).unwrap();
                self.room.remove(side.id, |end, turn| end.send_all(unread, turn)).unwrap();
            }
        }
        self.is_holding = false;
        self.to_home.extend(std::iter::from_fn(|| self.room.take_frame()));
        while self.deliver_home() {}
        for side in &self.sides {
            let end = self.home.remove(side.id, |end, _| end.settle()).unwrap().unwrap();
            assert_eq!(end.waiting_bytes(), 0);
        }
        self.to_room.clear();
        while self.home.take_frame().is_some() {}
        self.open();
    }
}

/// Gives how often the streams were joined.
fn run(connection: Connection, steps: &[Step]) -> u32 {
    let mut world = World::new(connection);
    // They never shut their directions: home makes those calls on stand-ins.
    let mut speakers = [Speaker::new(u64::MAX), Speaker::new(u64::MAX)];
    let begun = Instant::now();
    for step in steps.iter().cycle() {
        let side = usize::from(step.act % 2);
        match step.act / 2 {
            0 if speakers[side].said < 60_000 => speakers[side].say(&world.sides[side].process, step.much as u64),
            0 | 1 => speakers[side].hear(&world.sides[side].process, step.much),
            2 => world.turn(),
            3 => drop(world.deliver_home()),
            4 => drop(world.deliver_room()),
            5 => world.hold(),
            // A move is rarer than all else.
            _ if step.much < 2000 => world.move_both(),
            _ => world.turn(),
        }
        if speakers.iter().all(|speaker| speaker.said >= 60_000)
            && speakers[0].heard == speakers[1].said
            && speakers[1].heard == speakers[0].said
        {
            break;
        }
        if begun.elapsed() > Duration::from_millis(200) {
            // The same steps again and again may not lead anywhere.
            world.turn();
            while world.deliver_home() || world.deliver_room() {}
            for (speaker, side) in speakers.iter_mut().zip(&world.sides) {
                speaker.hear(&side.process, 5000);
                if speaker.said < 60_000 {
                    speaker.say(&side.process, 5000);
                }
            }
        }
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            [0, 1].map(|n| (speakers[n].said, speakers[n].heard))
        );
    }
    assert_eq!(world.home_bytes, 0);
    world.joins
}

#[test]
fn tcp_streams_are_joined_and_split() {
    run_many(25, 14, |steps| run(tcp(), steps));
}

#[test]
fn unix_streams_are_joined_and_split() {
    run_many(25, 14, |steps| run(unix(), steps));
}
