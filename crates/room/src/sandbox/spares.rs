//! Open stand-ins in stock, for descriptors that home makes. The kernel lets only processes of the
//! room open them (fuse_allow_current_process in fs/fuse/dir.c), so the porter does, in advance.

use crate::sandbox::porter::{hear, tell};
use room_protocol::message::StandinId;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Set in the numbers of stand-ins that a room gives out; home gives out the others.
const OWN: u32 = 1 << 31;
/// So many are kept in stock.
const STOCK: usize = 32;
/// So many of them for regular files, which seldom come to stay at home.
const FILES_STOCK: usize = 8;
/// How long a call waits for the porter, which answers in microseconds unless the machine is
/// overloaded.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stand-in made in the room: what it stands for is the guests' alone, unless they pass it on.
pub fn is_own(standin: StandinId) -> bool {
    standin.0 & OWN != 0
}

/// An open stand-in.
#[derive(Debug)]
pub struct Spare {
    /// The number that it has.
    pub standin: StandinId,
    /// The open file.
    pub file: OwnedFd,
}

/// The stand-ins in stock.
#[derive(Debug, Default)]
pub struct Spares {
    stock: Mutex<Stock>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Stock {
    /// For what is no regular file.
    others: VecDeque<Spare>,
    /// For regular files.
    files: VecDeque<Spare>,
}

impl Stock {
    fn of(&mut self, files: bool) -> &mut VecDeque<Spare> {
        if files { &mut self.files } else { &mut self.others }
    }

    /// What there is not enough of: whether it is for files.
    fn lacks(&self) -> Option<bool> {
        let all = [(self.others.len(), STOCK, false), (self.files.len(), FILES_STOCK, true)];
        all.into_iter().find(|(count, wanted, _)| count < wanted).map(|(_, _, files)| files)
    }
}

impl Spares {
    fn lock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one; `None` if the porter has none to give.
    pub fn take(&self) -> Option<Spare> {
        self.take_of(false)
    }

    /// Takes one for a regular file.
    pub fn take_for_file(&self) -> Option<Spare> {
        self.take_of(true)
    }

    fn take_of(&self, files: bool) -> Option<Spare> {
        let (mut stock, _) = self
            .changed
            .wait_timeout_while(self.lock(), PATIENCE, |stock| stock.of(files).is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let spare = stock.of(files).pop_front();
        self.changed.notify_all();
        spare
    }

    /// Puts this open file into the stock, as the porter does.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn put(&self, file: OwnedFd) {
        self.lock().others.push_back(Spare { standin: StandinId(OWN), file });
    }

    /// Keeps the stock full, until the porter is gone.
    pub fn stock(&self, porter: &OwnedFd) {
        let mut next = [0; 2];
        let mut stock = self.lock();
        loop {
            let Some(files) = stock.lacks() else {
                stock = self.changed.wait(stock).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(stock);
            let count = &mut next[usize::from(files)];
            let first = OWN | if files { StandinId::FILE } else { 0 } | *count;
            *count = (*count + os::socket::FDS_MAX as u32) % StandinId::FILE;
            if let Err(e) = tell(porter.as_fd(), &first, &[]) {
                tracing::debug!("no more stand-ins: {e}");
                return;
            }
            let opened = match hear::<u32>(porter.as_fd()) {
                Ok(Some((_, opened))) => opened,
                Ok(None) | Err(_) => return,
            };
            let numbered = (first..).map(StandinId).zip(opened);
            stock = self.lock();
            stock.of(files).extend(numbered.map(|(standin, file)| Spare { standin, file }));
            self.changed.notify_all();
        }
    }
}
