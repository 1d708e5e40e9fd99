//! What has become of the owner's orders to send guests away.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use control_protocol::evictions::Eviction;
use control_protocol::guests::{HostedGuest, Leaving};

use tokio::sync::Notify;

use crate::locks::lock;
use crate::{Error, log};

/// The log of evictions, beside the daemon's.
const LOG: &str = "evictions.jsonl";
/// A guest that was sent away is not taken again from its home's policy for so long.
const UNWANTED_FOR: Duration = Duration::from_secs(600);

/// Results of orders.
#[derive(Default)]
pub(crate) struct Evictions {
    /// By home and PID there.
    told: Mutex<HashMap<(String, i32), Told>>,
    /// Guests must leave at once.
    pub(crate) due: Notify,
    /// Guests are sent away at once just now ([`crate::clearing`]).
    pub(crate) clearing: AtomicBool,
}

struct Told {
    at: Instant,
    leaving: Leaving,
}

impl Evictions {
    /// Whether the owner has sent this process away lately.
    pub(crate) fn is_unwanted(&self, home: &str, process: u64) -> bool {
        let Ok(pid) = i32::try_from(process) else { return false };
        lock(&self.told).get(&(home.to_owned(), pid)).is_some_and(|told| told.at.elapsed() < UNWANTED_FOR)
    }

    /// What was last heard about a guest.
    pub(crate) fn of(&self, guest: &HostedGuest) -> Option<Leaving> {
        lock(&self.told).get(&key(guest)).map(|told| told.leaving.clone())
    }

    pub(crate) fn note(&self, guests: &[HostedGuest]) {
        let mut all = lock(&self.told);
        all.retain(|_, told| told.at.elapsed() < UNWANTED_FOR);
        for guest in guests {
            if let Some(leaving) = &guest.leaving {
                all.insert(key(guest), Told { at: Instant::now(), leaving: leaving.clone() });
            }
        }
    }
}

/// Adds an entry to the log of evictions. A failure to write loses the entry, and nothing else.
pub(crate) fn log(run_dir: &Path, entry: &Eviction) {
    let line = serde_json::to_string(entry).map_err(std::io::Error::from);
    if let Err(e) = line.and_then(|line| log::append(run_dir, LOG, &line)) {
        tracing::debug!("eviction not logged: {e}");
    }
}

/// Gives the last entries of that log.
pub(crate) fn logged(run_dir: &Path, lines: u32) -> Result<Vec<String>, Error> {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    match log::tail_of(run_dir, LOG, lines) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|e| Error::socket("read the evictions", e)),
    }
}

fn key(guest: &HostedGuest) -> (String, i32) {
    (guest.home.clone(), guest.home_pid)
}
