//! Streams whose bytes go to another room, where the other end of their connection is.

use crate::pump::{Failed, Pump};
use crate::{Frame, RoomEnd, StreamId};

/// The stream of another room that is the other end of the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcrossTo {
    /// The way to that room.
    pub way: u64,
    /// The stream, as that room names it.
    pub peer: StreamId,
}

impl Pump<RoomEnd> {
    /// Has the bytes of a stream go to another room, where the other end of its connection is, and
    /// of which home holds nothing. The room that is `first` lets the other one send. Tells whether
    /// the stream is there, both its directions are open, and no frames of an earlier time are
    /// under way; else it goes on by way of home.
    pub fn cross(&mut self, id: StreamId, to: AcrossTo, is_first: bool) -> bool {
        let Some(key) = self.keys.get(&id).copied() else { return false };
        let is_whole = self.streams.get(&key).is_some_and(|s| s.end.is_whole() && !s.end.is_joined());
        if !is_whole || self.stale.get(&key) == Some(&to.way) {
            self.with(key, |end, _| {
                end.release();
                Ok(())
            });
            // A stream that fails here fails again in the next turn.
            let _ = self.advance(key);
            return false;
        }
        self.stale.remove(&key);
        self.across.insert(key, to);
        self.starved.retain(|starved| *starved != key);
        self.with(key, |end, turn| {
            end.cross();
            if is_first {
                end.release();
                (turn.send)(Frame::Release);
            }
            Ok(())
        });
        let _ = self.advance(key);
        true
    }

    /// Tells whether the bytes of a stream go to another room.
    pub fn is_across(&self, id: StreamId) -> bool {
        self.keys.get(&id).is_some_and(|key| self.across.contains_key(key))
    }

    /// Has the bytes of a stream go home again. Gives the stream if that failed.
    pub fn part(&mut self, id: StreamId) -> Option<Failed> {
        let key = self.keys.get(&id).copied()?;
        let AcrossTo { way, peer } = self.across.remove(&key)?;
        // The last frame of this time.
        self.across_frames.push_back((way, Frame::Part.header(peer).to_vec()));
        if !self.peer_parted.remove(&key) {
            self.stale.insert(key, way);
        }
        self.with(key, |end, turn| {
            end.part(turn);
            Ok(())
        });
        self.advance(key)
    }

    /// Has all bytes go home again that go by this way.
    pub fn part_all(&mut self, way: u64) -> Vec<Failed> {
        let of = |(key, to): (&u64, &AcrossTo)| (to.way == way).then(|| self.streams.get(key).map(|stream| stream.id));
        let ids: Vec<StreamId> = self.across.iter().filter_map(of).flatten().collect();
        let failed = ids.into_iter().filter_map(|id| self.part(id)).collect();
        // Nothing comes by it any more.
        self.stale.retain(|_, stale| *stale != way);
        self.across_frames.retain(|(of, _)| *of != way);
        failed
    }

    /// Obeys a frame that came by a way. A frame of a stream that does not go by it is late.
    pub fn obey_across(&mut self, way: u64, id: StreamId, frame: Frame<'_>) -> Vec<Failed> {
        let Some(key) = self.keys.get(&id).copied() else { return Vec::new() };
        let is_known = self.across.get(&key).is_some_and(|to| to.way == way);
        if frame == Frame::Part {
            match is_known {
                true => drop(self.peer_parted.insert(key)),
                false if self.stale.get(&key) == Some(&way) => drop(self.stale.remove(&key)),
                false => {}
            }
            return Vec::new();
        }
        let may_come = matches!(frame, Frame::Data { .. } | Frame::Taken(_) | Frame::Release);
        if is_known && may_come { self.obey(id, frame) } else { Vec::new() }
    }

    /// Takes the next frame for another room, and its way.
    pub fn take_across(&mut self) -> Option<(u64, Vec<u8>)> {
        self.across_frames.pop_front()
    }
}
