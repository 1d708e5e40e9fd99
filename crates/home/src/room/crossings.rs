//! A steward's knowledge of streams whose bytes go from room to room ([`crate::agent::crossing`]).

use crate::room::crossing_talk::{CrossWord, Talk, TalkEvent};
use crate::room::ways::Ways;
use relay::StreamId;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most streams of a room that go to other rooms; others go by way of home.
const TALKS_MAX: usize = 512;

/// A steward's knowledge of streams that go to other rooms.
#[derive(Debug, Default)]
pub struct Crossings {
    /// The ways to other rooms.
    pub ways: Ways,
    talks: Mutex<HashMap<StreamId, Arc<Talk>>>,
    /// Streams that have gone to another room at some time.
    crossed: Mutex<HashSet<StreamId>>,
    /// Streams that their room has closed, and since when: their last bytes are still to come.
    closing: Mutex<HashMap<StreamId, Instant>>,
}

impl Crossings {
    fn talks(&self) -> MutexGuard<'_, HashMap<StreamId, Arc<Talk>>> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the streams that have gone to another room at some time.
    pub fn crossed(&self) -> MutexGuard<'_, HashSet<StreamId>> {
        self.crossed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the streams that are to be closed once their last bytes have come.
    pub fn closing(&self) -> MutexGuard<'_, HashMap<StreamId, Instant>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a stream has gone to another room at some time, and forgets that.
    pub fn take_crossed(&self, id: StreamId) -> bool {
        self.crossed().remove(&id)
    }

    /// Notes that the stewards begin to talk about a stream; `false`: they do already, or about too
    /// many.
    pub fn begin(&self, id: StreamId, talk: &Arc<Talk>) -> bool {
        let mut talks = self.talks();
        if talks.len() >= TALKS_MAX || talks.contains_key(&id) {
            return false;
        }
        talks.insert(id, talk.clone());
        true
    }

    /// Notes that the stewards talk about a stream no more.
    pub fn end(&self, id: StreamId, talk: &Arc<Talk>) {
        let mut talks = self.talks();
        if talks.get(&id).is_some_and(|known| Arc::ptr_eq(known, talk)) {
            talks.remove(&id);
        }
    }

    /// Ends the conversation about a stream that is closed.
    pub fn hang_up(&self, id: StreamId) {
        let talk = self.talks().remove(&id);
        talk.into_iter().for_each(|talk| talk.hang_up());
    }

    /// Has the room at the end of a way learn of all changes of files until now, for the room of
    /// this steward.
    pub fn fence(&self, way: u64, number: u64) {
        let talk = self.talks().values().find(|talk| talk.goes_by(way)).cloned();
        // A steward that is gone is noticed by its listener; and the room asks again.
        talk.into_iter().for_each(|talk| drop(talk.say(&CrossWord::Fence { way, number })));
    }

    /// Takes what a room has said of a stream.
    pub fn note(&self, id: StreamId, event: TalkEvent) {
        let talk = self.talks().get(&id).cloned();
        talk.into_iter().for_each(|talk| talk.note(event));
    }
}
