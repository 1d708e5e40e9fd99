//! What has become of the owner's orders to send guests away.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use control_protocol::guests::{HostedGuest, Leaving};

use crate::locks::lock;

/// A guest that was sent away is not taken again from its home's policy for so long.
const UNWANTED_FOR: Duration = Duration::from_secs(600);

/// What has become of orders: by home and PID there.
#[derive(Default)]
pub(crate) struct Evictions(Mutex<HashMap<(String, i32), Told>>);

struct Told {
    at: Instant,
    leaving: Leaving,
}

impl Evictions {
    /// Whether the owner has sent this process away lately.
    pub(crate) fn is_unwanted(&self, home: &str, process: u64) -> bool {
        let Ok(pid) = i32::try_from(process) else { return false };
        lock(&self.0).get(&(home.to_owned(), pid)).is_some_and(|told| told.at.elapsed() < UNWANTED_FOR)
    }

    /// What was last heard about a guest.
    pub(crate) fn of(&self, guest: &HostedGuest) -> Option<Leaving> {
        lock(&self.0).get(&key(guest)).map(|told| told.leaving.clone())
    }

    pub(crate) fn note(&self, guests: &[HostedGuest]) {
        let mut all = lock(&self.0);
        all.retain(|_, told| told.at.elapsed() < UNWANTED_FOR);
        for guest in guests {
            if let Some(leaving) = &guest.leaving {
                all.insert(key(guest), Told { at: Instant::now(), leaving: leaving.clone() });
            }
        }
    }
}

fn key(guest: &HostedGuest) -> (String, i32) {
    (guest.home.clone(), guest.home_pid)
}
