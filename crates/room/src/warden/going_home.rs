//! Calls that only home can serve: the process is brought home, where its call is made again. If it cannot come, the call fails as its row says.

use super::guests::Waiting;
use super::shared::Shared;
use os::seccomp::Answer;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use wire::ToHome;

/// Calls that wait until their process has gone home.
#[derive(Debug, Default)]
pub struct GoingHome(Mutex<HashMap<i32, Vec<Call>>>);

#[derive(Debug)]
struct Call {
    waiting: Waiting,
    nr: u32,
    errno: i32,
}

impl GoingHome {
    fn take(&self, pid: i32) -> Vec<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid).unwrap_or_default()
    }

    /// The process is not here any more.
    pub fn forget(&self, pid: i32) {
        drop(self.take(pid));
    }
}

/// The caller waits until its process is home, or cannot go. `first`: who comes before it.
pub fn go(room: &Shared, pid: i32, waiting: Waiting, (nr, errno): (u32, i32), first: Option<i32>) {
    let mut all = room.going_home.0.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(pid).or_default().push(Call { waiting, nr, errno });
    drop(all);
    room.tell(&ToHome::GoesHome { pid, first });
}

/// It cannot go.
pub fn stay(room: &Shared, pid: i32, why: &str) {
    for call in room.going_home.take(pid) {
        if call.waiting.still_waits() {
            room.refused(pid, call.nr, &format!("it should have gone home for this call, and could not: {why}"));
            call.waiting.answer(Answer::Value(-i64::from(call.errno)));
        }
    }
}
