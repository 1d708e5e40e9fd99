//! Open stand-ins in stock, for descriptors that home makes. The kernel lets only processes of the room open them (fuse_allow_current_process in
//! fs/fuse/dir.c), so the porter does, in advance.

use crate::porter::{hear, tell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::message::StandinId;

/// Set in the numbers of stand-ins that a room gives out; home gives out the others.
const OWN: u32 = 1 << 31;
/// So many are kept in stock.
const STOCK: usize = 32;
/// How long a call waits for the porter, which answers in microseconds unless the machine is overloaded.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stand-in made in the room: what it stands for is the guests' alone, unless they pass it on.
pub fn is_own(standin: StandinId) -> bool {
    standin.0 & OWN != 0
}

/// An open stand-in.
#[derive(Debug)]
pub struct Spare {
    /// Its number.
    pub standin: StandinId,
    /// The open file.
    pub file: OwnedFd,
}

/// The stock.
#[derive(Debug, Default)]
pub struct Spares {
    stock: Mutex<VecDeque<Spare>>,
    changed: Condvar,
}

impl Spares {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Spare>> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one; `None` if the porter has none to give.
    pub fn take(&self) -> Option<Spare> {
        let (mut stock, _) = self
            .changed
            .wait_timeout_while(self.lock(), PATIENCE, |stock| stock.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let spare = stock.pop_front();
        self.changed.notify_all();
        spare
    }

    /// Keeps the stock full, until the porter is gone.
    pub fn stock(&self, porter: &OwnedFd) {
        let mut first = OWN;
        loop {
            if let Err(e) = tell(porter.as_fd(), &first, &[]) {
                tracing::debug!("no more stand-ins: {e}");
                return;
            }
            let files = match hear::<u32>(porter.as_fd()) {
                Ok(Some((_, files))) => files,
                Ok(None) | Err(_) => return,
            };
            let numbered = (first..).map(StandinId).zip(files);
            let mut stock = self.lock();
            stock.extend(numbered.map(|(standin, file)| Spare { standin, file }));
            first = first.checked_add(os::socket::FDS_MAX as u32).unwrap_or(OWN);
            self.changed.notify_all();
            drop(self.changed.wait_while(stock, |stock| stock.len() >= STOCK));
        }
    }
}
