//! The order of bytes that go straight to another room, and of changes in home's files. Pure: time
//! is an argument.
//!
//! A process learns from home that a file has a new name, say, and tells a process in another room.
//! That room must not look at its old copy of the directory then. Home sends each room its changes
//! in order with everything else, so bytes that pass by home could overtake them. Therefore each
//! room counts what it learns from home. Bytes wait until the other room has confirmed, through
//! home, all that home knew when they were written. A room that learns nothing asks nothing.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

/// How long an answer may take until the room asks again: the question may have gone with a stream
/// that ended.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Frames to other rooms, and what those rooms have confirmed.
#[derive(Debug, Default)]
pub struct Fences {
    held: VecDeque<HeldFrame>,
    ways: HashMap<u64, Confirmed>,
}

/// A frame to another room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFrame {
    /// The way that it goes.
    pub way: u64,
    /// The bytes of the frame.
    pub frame: Vec<u8>,
    /// The number of things that the room had learnt; 0: it may go at once.
    pub learnt: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Confirmed {
    number: u64,
    asked: Option<Question>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    number: u64,
    at: Duration,
}

/// The frames and questions that are due now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Frames that go now, in their order.
    pub frames: Vec<HeldFrame>,
    /// Questions to ask: the way, and the number.
    pub questions: Vec<(u64, u64)>,
}

impl Fences {
    /// Takes a frame to another room.
    pub fn push(&mut self, frame: HeldFrame) {
        self.held.push_back(frame);
    }

    /// Notes that the room at the end of a way knows all that was known at question `number`.
    pub fn confirm(&mut self, way: u64, number: u64) {
        let confirmed = self.ways.entry(way).or_default();
        confirmed.number = confirmed.number.max(number);
        confirmed.asked = confirmed.asked.filter(|question| question.number > number);
    }

    /// Forgets a way that broke, and its frames.
    pub fn forget(&mut self, way: u64) {
        self.ways.remove(&way);
        self.held.retain(|frame| frame.way != way);
    }

    /// Gives what is to be done at `now`. `learnt`: the number of things that the room has learnt.
    /// Frames of one way keep their order.
    pub fn due(&mut self, learnt: u64, now: Duration) -> Due {
        let (mut due, mut blocked) = (Due::default(), HashSet::new());
        for frame in std::mem::take(&mut self.held) {
            let confirmed = self.ways.entry(frame.way).or_default();
            if blocked.contains(&frame.way) {
                self.held.push_back(frame);
            } else if frame.learnt <= confirmed.number {
                due.frames.push(frame);
            } else {
                blocked.insert(frame.way);
                if confirmed.asked.is_none_or(|question| question.at + ASK_AGAIN <= now) {
                    confirmed.asked = Some(Question { number: learnt, at: now });
                    due.questions.push((frame.way, learnt));
                }
                self.held.push_back(frame);
            }
        }
        due
    }

    /// Gives the time after which there may be something to do though nothing happens.
    pub fn timeout(&self) -> Option<Duration> {
        (!self.held.is_empty()).then_some(ASK_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(way: u64, learnt: u64, number: u8) -> HeldFrame {
        HeldFrame { way, frame: vec![number], learnt }
    }

    #[test]
    fn frames_wait_for_what_was_learnt_before_them() {
        let mut fences = Fences::default();
        let at = Duration::from_millis;
        [frame(1, 5, 0), frame(2, 0, 1), frame(1, 0, 2), frame(1, 7, 3)].into_iter().for_each(|f| fences.push(f));
        let due = fences.due(7, at(0));
        assert_eq!(due, Due { frames: vec![frame(2, 0, 1)], questions: vec![(1, 7)] });
        assert_eq!(fences.due(7, at(100)), Due::default());
        assert_eq!(fences.due(8, at(200)).questions, [(1, 8)]);
        fences.confirm(1, 6);
        assert_eq!(fences.due(8, at(210)).frames, [frame(1, 5, 0), frame(1, 0, 2)]);
        fences.confirm(1, 8);
        assert_eq!(fences.due(8, at(220)), Due { frames: vec![frame(1, 7, 3)], questions: vec![] });
        assert_eq!(fences.timeout(), None);
    }

    #[test]
    fn a_way_that_broke_takes_its_frames_along() {
        let mut fences = Fences::default();
        fences.push(frame(1, 5, 0));
        fences.forget(1);
        assert_eq!(fences.due(7, Duration::ZERO), Due::default());
    }
}
