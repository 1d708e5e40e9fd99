//! Calls that only home can serve: the process is brought home, where its call is made again. If it
//! cannot come, the call fails as its row says.

use crate::state::guests::Waiting;
use crate::state::home_link::HomeLink;
use os::seccomp::Answer;
use room_protocol::ToHome;
use room_protocol::message::Errand;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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

/// A call that home alone can make, and what its process needs there.
pub struct HomeCall {
    /// The thread that waits in it.
    pub waiting: Waiting,
    /// The number of the system call.
    pub nr: u32,
    /// What the call returns if the process cannot go.
    pub errno: i32,
    /// The file that the call is about.
    pub file: Option<Vec<u8>>,
    /// A process that comes home before the caller.
    pub first: Option<i32>,
}

impl GoingHome {
    /// Has the caller wait until its process is home, or cannot go.
    pub fn go(&self, home: &HomeLink, pid: i32, call: HomeCall) {
        let HomeCall { waiting, nr, errno, file, first } = call;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(pid).or_default().push(Call { waiting, nr, errno });
        drop(all);
        let errand = file.map_or_else(|| Errand::call(nr), |file| Errand::call_on(nr, &file));
        home.tell(&ToHome::GoesHome { pid, first, errand });
    }

    /// Fails the calls of a process that cannot go.
    pub fn stay(&self, home: &HomeLink, pid: i32, why: &str) {
        for call in self.take(pid) {
            if call.waiting.still_waits() {
                home.refused(pid, call.nr, &format!("it should have gone home for this call, and could not: {why}"));
                call.waiting.answer(Answer::Value(-i64::from(call.errno)));
            }
        }
    }
}
