//! Input of people at this machine: keyboards and pointers (evdev,
//! `Documentation/input/input.rst`), terminals, and graphical sessions.
//!
//! | source | how input is seen | what it misses |
//! | --- | --- | --- |
//! | `/dev/input/eventN` | events that can be read | people who sit elsewhere |
//! | terminals (`/dev/pts/N`) | reads (inotify(7)), and the atime | what no program reads |
//! | graphical sessions | logind's idle hint | that nobody is there, for some minutes |
//!
//! The kernel sets a terminal's atime when a program reads input, but not twice within 8 seconds,
//! so that nobody learns the times of keys from it (`tty_update_time` in drivers/tty/tty_io.c). So
//! the atime tells of input before this program began, and inotify of the first key after that.

mod events;
mod sessions;
mod terminals;
mod words;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::events::EventDevices;
use self::sessions::Sessions;
use self::terminals::Terminals;

/// Devices and sessions are looked for anew so often.
const LOOKED_FOR_EVERY: Duration = Duration::from_secs(2);

/// The sources of input of this machine.
#[derive(Debug)]
pub struct Input {
    events: EventDevices,
    terminals: Terminals,
    sessions: Sessions,
    looked: Instant,
}

/// The sources of one kind that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The kind, for people.
    pub name: &'static str,
    /// How many there are, and which; or why there are none.
    pub state: Result<String, String>,
}

impl Input {
    /// Opens what there is.
    pub fn open() -> Input {
        let mut input = Input {
            events: EventDevices::new(Path::new("/dev/input"), Path::new("/sys/class/input")),
            terminals: Terminals::new(Path::new("/dev")),
            sessions: Sessions::new(Path::new("/run/systemd/sessions")),
            looked: Instant::now(),
        };
        input.look();
        input
    }

    /// Looks for devices that have come or gone. Gives whether a terminal or a session has had
    /// input meanwhile.
    fn look(&mut self) -> bool {
        self.looked = Instant::now();
        self.events.look();
        let terminals = self.terminals.look();
        self.sessions.look() || terminals
    }

    /// Tells when a terminal that is open now had its last input.
    pub fn last_of_terminals(&self) -> Option<SystemTime> {
        self.terminals.last()
    }

    /// Waits for input, but no longer than `limit`. Gives whether there was some. Input that came
    /// before the call counts, too.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            if self.looked.elapsed() >= LOOKED_FOR_EVERY && self.look() {
                return true;
            }
            let next = end.min(self.looked + LOOKED_FOR_EVERY);
            self.poll(next.saturating_duration_since(Instant::now()));
            let (events, terminals) = (self.events.take(), self.terminals.take());
            if events || terminals {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
        }
    }

    fn poll(&self, limit: Duration) {
        let descriptors = self.events.descriptors().chain(self.terminals.descriptor());
        let mut polled: Vec<PollFd<'_>> = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs().min(3600) as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        // A signal only shortens the wait.
        let _ = poll(&mut polled, Some(&limit));
    }

    /// Tells what was found, for people.
    pub fn found(&self) -> [Found; 3] {
        [
            Found { name: "keyboards and pointers", state: self.events.found() },
            Found { name: "terminals", state: self.terminals.found() },
            Found { name: "graphical sessions", state: self.sessions.found() },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    /// Opens a pseudo-terminal: the end of the keyboard, and that of programs.
    fn terminal() -> (std::fs::File, std::fs::File) {
        let (mut keyboard, mut program) = (-1, -1);
        // SAFETY: the two descriptors are written, and nothing else.
        let opened = unsafe {
            libc::openpty(&mut keyboard, &mut program, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut())
        };
        assert_eq!(opened, 0);
        // SAFETY: they are ours, and nobody else's.
        unsafe { (OwnedFd::from_raw_fd(keyboard).into(), OwnedFd::from_raw_fd(program).into()) }
    }

    #[test]
    fn the_first_key_on_a_terminal_is_seen_at_once_and_output_is_none() {
        let (mut keyboard, mut program) = terminal();
        // The kernel changes a time only if it is 8 seconds old.
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        program.set_times(std::fs::FileTimes::new().set_accessed(hour_ago)).unwrap();
        // Other terminals of this machine may have input.
        let name = std::fs::read_link(format!("/proc/self/fd/{}", program.as_raw_fd())).unwrap();
        let mut input = Input { terminals: Terminals::of(Path::new("/dev"), name), ..Input::open() };
        input.look();
        while input.wait(Duration::ZERO) {}
        program.write_all(b"output\n").unwrap();
        assert!(!input.wait(Duration::from_millis(50)), "output is no input");
        keyboard.write_all(b"k\n").unwrap();
        program.read_exact(&mut [0]).unwrap();
        let begun = Instant::now();
        assert!(input.wait(Duration::from_secs(20)));
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let shown = LOOKED_FOR_EVERY + Duration::from_millis(500);
        assert!(!input.wait(shown), "the same key is seen again, by the time of the terminal");
        let last = input.last_of_terminals().unwrap();
        assert!(last.elapsed().unwrap() < Duration::from_secs(60));
    }
}
