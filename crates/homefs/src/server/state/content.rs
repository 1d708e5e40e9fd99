//! The state of a file's content: its lease, and the opens of the room.

use super::lease::HeldLease;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which a file whose lease was broken is not leased again. It doubles with every
/// break up to the longest.
const CALM: Duration = Duration::from_millis(20);
const CALM_LONGEST: Duration = Duration::from_secs(2);

/// The lease that a server has on a file.
#[derive(Default)]
pub(crate) enum Lease {
    #[default]
    None,
    /// No process at home waits for it.
    Held(Arc<HeldLease>),
    /// A process at home waits, or has waited long enough. The room was told to forget and has not
    /// confirmed yet.
    Breaking(Arc<HeldLease>),
}

/// The state of a file's content.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) lease: Lease,
    /// The room's read-only opens, by handle.
    pub(crate) readers: Vec<u64>,
    /// The number of the room's opens for writing.
    pub(crate) writers: u32,
    /// Whether a process at home could write, too, when the first of those writers came.
    pub(crate) shared: bool,
    calm_until: Option<Instant>,
    breaks: u32,
    /// The number of leases so far, the present one included.
    pub(crate) leases: u64,
    /// Whether the content was offered to the room under the present lease.
    pub(crate) offered: bool,
}

impl Content {
    /// Notes that the lease was broken: the file is not leased again for a while.
    pub(crate) fn broken(&mut self) {
        let calm = CALM.saturating_mul(1 << self.breaks.min(8)).min(CALM_LONGEST);
        self.calm_until = Some(Instant::now() + calm);
        self.breaks += 1;
        self.offered = false;
    }

    /// Tells whether the file may be leased again after a break.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Gives the file under the lease, and the lease's number.
    pub(crate) fn leased(&self) -> Option<(Arc<OwnedFd>, u64)> {
        match &self.lease {
            Lease::Held(lease) if !lease.is_given_up() => Some((lease.file().clone(), self.leases)),
            _ => None,
        }
    }

    /// Tells whether the content has not changed since this lease was taken.
    pub(crate) fn is_leased(&self, number: u64) -> bool {
        matches!(&self.lease, Lease::Held(lease) if !lease.is_given_up()) && self.leases == number
    }

    /// Tells whether content read now may stay in the room's cache. `opened_elsewhere`: whether
    /// another process has opened the file since the room opened it for writing.
    pub(crate) fn is_covered(&self, opened_elsewhere: bool) -> bool {
        match &self.lease {
            Lease::Held(lease) => !lease.is_given_up(),
            Lease::Breaking(_) => false,
            Lease::None => self.writers > 0 && !self.shared && !opened_elsewhere,
        }
    }
}
