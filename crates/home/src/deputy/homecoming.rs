//! How processes go home that `tern run` has started: its program, and all that descends from it in
//! the room.

use crate::closing;
use crate::deputy::errand;
use control_protocol::tool::Homecoming;
use os::pidfd::PidFd;
use room_protocol::message::Errand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `tern run` asked for. Clones belong to one `tern run`.
#[derive(Clone, Debug, Default)]
pub struct HomecomingPolicy {
    homecoming: Homecoming,
    /// The policy of its home wants it to see home's numbers of file systems.
    home_devices: bool,
    /// One of them has said that it came home.
    said: Arc<AtomicBool>,
}

impl HomecomingPolicy {
    /// Of a new `tern run`.
    pub fn of(homecoming: Homecoming, home_devices: bool) -> HomecomingPolicy {
        HomecomingPolicy { homecoming, home_devices, ..HomecomingPolicy::default() }
    }

    /// Whether its programs see home's numbers of file systems from their beginning.
    pub fn sees_home_devices(&self) -> bool {
        self.home_devices
    }

    /// Whether its programs end rather than go home for this errand. (Of a program that has died
    /// its core file is written at home in any case.)
    pub fn forbids(&self, errand: &Errand) -> bool {
        self.homecoming == Homecoming::Fail && !matches!(errand, Errand::Core { .. })
    }

    /// What deputy `pid` is to say on its standard error when it has come home from `host` for
    /// this. Only the first of them says so.
    pub fn announcement(&self, pid: i32, deputy: &PidFd, host: &str, errand: &Errand) -> Option<Announcement> {
        if self.homecoming != Homecoming::Say || self.said.load(Ordering::Acquire) {
            return None;
        }
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let comm: String = comm.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let who = format!("{comm} (process {pid})");
        let help = errand::help(errand).map_or(String::new(), |help| format!("; {help}"));
        let why = format!("from {host} for {}{help}", errand::words(errand));
        Some(Announcement { who, why, stderr: deputy.get_fd(libc::STDERR_FILENO).ok()?, said: self.said.clone() })
    }
}

/// Words for the standard error of a process that comes home.
#[derive(Debug)]
pub struct Announcement {
    who: String,
    why: String,
    stderr: OwnedFd,
    said: Arc<AtomicBool>,
}

impl Announcement {
    /// Says that the process came home, unless another process of the same `tern run` was faster,
    /// or there is no room for the words.
    pub fn make(self) {
        let words = format!("tern: {} came home {} (tern run --quiet does not say so)\n", self.who, self.why);
        self.write(words);
    }

    /// Likewise says that it could not.
    pub fn unmade(self, failed: &str) {
        let words = format!("tern: {} cannot come home {}; the call fails, because: {failed}\n", self.who, self.why);
        self.write(words);
    }

    fn write(self, words: String) {
        let Announcement { stderr, said, .. } = self;
        if said.swap(true, Ordering::AcqRel) {
            return;
        }
        closing::briefly(move || {
            let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
            if poll(&mut polled, Some(&Timespec::default())) == Ok(1) && polled[0].revents().contains(PollFlags::OUT) {
                // Nobody is left to hear that it failed.
                let _ = rustix::io::write(&stderr, words.as_bytes());
            }
        });
    }
}
