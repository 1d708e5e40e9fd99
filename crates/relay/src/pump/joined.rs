//! Streams whose two ends are in one room.

use crate::pump::Pump;
use crate::{RoomEnd, StreamError, StreamId};

impl Pump<RoomEnd> {
    /// Joins two streams that are the ends of one connection, of which home holds nothing: their
    /// bytes do not leave the room. Tells whether both are there, with both directions open.
    pub fn join(&mut self, one: StreamId, other: StreamId) -> bool {
        let (Some(first), Some(second)) = (self.keys.get(&one).copied(), self.keys.get(&other).copied()) else {
            return false;
        };
        let is_whole = |key| self.streams.get(key).is_some_and(|s| s.end.is_whole() && !s.end.is_joined());
        if ![first, second].iter().all(is_whole) {
            return false;
        }
        for (key, partner) in [(first, second), (second, first)] {
            self.with(key, |end, _| {
                end.join();
                Ok(())
            });
            self.partners.insert(key, partner);
        }
        self.starved.retain(|key| *key != first && *key != second);
        for key in [first, second] {
            let _ = self.advance(key);
        }
        self.pass_on();
        true
    }

    /// Gives the stream to which this one is joined.
    pub fn partner(&self, id: StreamId) -> Option<StreamId> {
        let partner = self.partners.get(self.keys.get(&id)?)?;
        self.streams.get(partner).map(|stream| stream.id)
    }

    /// Splits two joined streams, whose processes stand still, and removes them: home gets all
    /// bytes that are under way between them, each as written by the process that wrote it. Each
    /// end comes with the bytes that its process left unread in its pair.
    ///
    /// # Errors
    /// A socket failed. The streams are removed all the same.
    pub fn split(&mut self, one: SplitEnd, other: SplitEnd) -> Result<(), StreamError> {
        self.pass_on();
        let (mut parts, mut failure) = (Vec::new(), None);
        for SplitEnd { id, in_pair } in [&one, &other] {
            let Some(key) = self.keys.get(id).copied() else { return Ok(()) };
            self.partners.remove(&key);
            let mut split = None;
            let failed = self.with(key, |end, _| {
                split = Some(end.split(in_pair.clone())?);
                Ok(())
            });
            failure = failure.or(failed);
            parts.push(split.unwrap_or_default());
        }
        let [first, second] = parts.as_slice() else { return Ok(()) };
        let to_home = [[&second.0[..], &first.1[..]].concat(), [&first.0[..], &second.1[..]].concat()];
        for (id, bytes) in [one.id, other.id].into_iter().zip(to_home) {
            self.remove(id, |end, turn| {
                end.give_back(&bytes, turn);
                Ok(())
            })?;
        }
        failure.map_or(Ok(()), |(_, why)| Err(why))
    }
}

/// One of two joined streams, when they are split.
#[derive(Debug)]
pub struct SplitEnd {
    /// The stream that is meant.
    pub id: StreamId,
    /// The bytes that its process left unread in its end of the pair.
    pub in_pair: Vec<u8>,
}
