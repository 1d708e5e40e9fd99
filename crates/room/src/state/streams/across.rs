//! Streams whose bytes go straight to another room of the same home.

use crate::state::fences::{Due, Fences, HeldFrame};
use crate::state::streams::{Closing, RoomStreams};
use relay::{AcrossTo, Frame, StreamError, StreamId};
use room_protocol::message::StandinId;
use room_protocol::{Kind, ToHome};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// How long a body that leaves waits until home has what was on the way to and from another room.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

impl RoomStreams {
    pub(super) fn note_way(&self, id: StreamId, way: u64) {
        let mut table = self.table();
        let open = table.open.get_mut(&StandinId(id.standin)).filter(|open| open.id == id);
        open.into_iter().for_each(|open| open.way = Some(way));
    }

    /// Has a stream's bytes go to the room of its peer.
    pub(super) fn cross(&self, id: StreamId, peer: StreamId, is_first: bool) {
        let way = {
            let mut table = self.table();
            let open = table.open.get_mut(&StandinId(id.standin)).filter(|open| open.id == id);
            let Some(open) = open else { return };
            open.has_crossed = true;
            open.way
        };
        let (Some(way), Some(mut pump)) = (way, self.pump()) else { return };
        if pump.cross(id, AcrossTo { way, peer }, is_first) {
            tracing::debug!("stream {} goes to stream {} of another room", id.standin, peer.standin);
            if !is_first {
                pump.say(id, Frame::Crossed);
            }
        } else {
            tracing::debug!("stream {} has an end, and does not go to another room", id.standin);
            // As a stream that went there, and came back at once.
            pump.say(id, Frame::Received(0));
            pump.say(id, Frame::Parted(0));
        }
        pump.wake();
    }

    /// Has a stream's bytes go home again.
    pub(super) fn part(&self, id: StreamId) {
        let Some(mut pump) = self.pump() else { return };
        tracing::debug!("stream {} goes home again", id.standin);
        let over = pump.part(id);
        pump.wake();
        drop(pump);
        self.table().over.extend(over);
    }

    /// Has all streams go home again that went by a way that broke.
    pub fn part_all(&self, way: u64) {
        self.fences().forget(way);
        let Some(mut pump) = self.pump() else { return };
        let over = pump.part_all(way);
        pump.wake();
        drop(pump);
        self.table().over.extend(over);
    }

    /// Obeys a frame that came by a way from another room.
    ///
    /// # Errors
    /// The other room sent what is no frame, or broke the protocol: the reason, in words.
    pub fn obey_across(&self, way: u64, body: &[u8]) -> Result<(), String> {
        let (id, frame) = Frame::decode(body).map_err(|e| e.to_string())?;
        if let Frame::Fenced(number) = frame {
            self.fences().confirm(way, number);
            self.wake();
            return Ok(());
        }
        let over = self.pump().map(|mut pump| pump.obey_across(way, id, frame)).unwrap_or_default();
        if let Some((_, StreamError::OutOfOrder(e))) = over.first() {
            return Err(e.to_string());
        }
        self.table().over.extend(over);
        self.wake();
        Ok(())
    }

    /// Sends other rooms what they may have now. Only the pump's thread does: it may have to wait
    /// for another room's node, and nobody else is to wait for that.
    pub fn flush_across(&self, uplink: &link::Sender) {
        let learnt = self.learnt.load(Ordering::Acquire);
        let Due { frames, questions } = {
            let mut fences = self.fences();
            while let Some((way, frame)) = self.pump().and_then(|mut pump| pump.take_across()) {
                let is_data = matches!(Frame::decode(&frame), Ok((_, Frame::Data { .. })));
                fences.push(HeldFrame { way, frame, learnt: if is_data { learnt } else { 0 } });
            }
            let now = os::namespace::clock_ns(libc::CLOCK_MONOTONIC);
            fences.due(learnt, Duration::from_nanos(now.try_into().unwrap_or(0)))
        };
        frames.iter().for_each(|held| self.ways.send(held.way, &held.frame));
        for (way, number) in questions {
            if !self.ways.is_open(way) {
                self.fences().forget(way);
            } else if let Ok(bytes) = postcard::to_stdvec(&ToHome::Fence { way, number }) {
                // The receiver notices a link that fails.
                let _ = uplink.send(Kind::Message, 0, 0, &[&bytes]);
            }
        }
    }

    pub(super) fn fences(&self) -> MutexGuard<'_, Fences> {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that home has told the room something that guests may tell on.
    pub fn learn(&self) {
        self.learnt.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells the room at the end of a way that this one has learnt of all changes until its
    /// question.
    pub fn confirm(&self, way: u64, number: u64) {
        self.ways.send(way, &Frame::Fenced(number).header(StreamId { standin: 0, epoch: 0 }));
    }

    pub(super) fn closing(&self) -> MutexGuard<'_, Closing> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the true socket of a stream has all that was on the way between its room and the
    /// room of its peer.
    pub fn await_closed(&self, id: StreamId) {
        let awaited = |closing: &mut Closing| closing.awaited.contains(&id);
        let waited = self.has_closed.wait_timeout_while(self.closing(), CLOSED_WITHIN, awaited);
        let (mut closing, late) = waited.unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            closing.awaited.remove(&id);
            tracing::warn!("home did not close stream {id:?} in time");
        }
    }
}
