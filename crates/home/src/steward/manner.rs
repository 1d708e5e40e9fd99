//! How processes go home that `tern run` has started: its program, and all that descends from it in
//! the room.

use super::channel;
use super::deputies::{Deputy, Phase};
use super::errand;
use control_protocol::tool::Homecoming;
use os::pidfd::PidFd;
use room_protocol::message::Errand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status of a process that was not to run at home (that of `tern run` when tern itself
/// fails).
const FAILED: u64 = 125;

/// What `tern run` asked for. Clones belong to one `tern run`.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    homecoming: Homecoming,
    /// The policy of its home wants it to see home's numbers of file systems.
    home_devices: bool,
    /// One of them has said that it came home.
    said: Arc<AtomicBool>,
}

impl Manner {
    /// Of a new `tern run`.
    pub fn of(homecoming: Homecoming, home_devices: bool) -> Manner {
        Manner { homecoming, home_devices, ..Manner::default() }
    }

    /// Whether its programs see home's numbers of file systems from their beginning.
    pub fn sees_home_devices(&self) -> bool {
        self.home_devices
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
        super::closing::briefly(move || {
            let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
            if poll(&mut polled, Some(&Timespec::default())) == Ok(1) && polled[0].revents().contains(PollFlags::OUT) {
                // Nobody is left to hear that it failed.
                let _ = rustix::io::write(&stderr, words.as_bytes());
            }
        });
    }
}

/// Ends a process that was to go home, and must not. False: it may go, or its pages are still
/// needed.
pub fn forbid(pid: i32, deputy: &mut Deputy, host: &str, errand: &Errand) -> bool {
    let may_go = matches!(errand, Errand::Core { .. }) || deputy.manner.homecoming != Homecoming::Fail;
    if may_go || deputy.lends || deputy.phase != Phase::Away {
        return false;
    }
    let help = errand::help(errand).map_or(String::new(), |help| format!("; {help}"));
    let why = errand::words(errand);
    tracing::info!("process {pid} ends: tern run --strict, and only home serves {why}");
    let words =
        format!("tern: process {pid} ends (tern run --strict): it would have to leave {host} for {why}{help}\n");
    deputy.end(channel::order(abi::OP_EXIT, [FAILED, 0], &[]), Some(&words));
    // Its body runs yet: the room is told to end it when the deputy has ended.
    deputy.phase = Phase::Away;
    true
}
