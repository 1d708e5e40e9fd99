//! The heir: a process forked from the steward at its start, small as that was then. It outlives
//! the steward: a deputy that waits in a forwarded call does not hear that its steward has died;
//! the heir holds all deputies, tells those that are left why they end, and kills them.
//!
//! And it makes processes for the steward. To fork that itself would leave it with faults on every
//! page that it writes next, while programs stand still. An heir that dies is replaced by a fresh
//! execution of this program, which copies no page.

pub mod last_words;

use os::landlock_probe::LandlockProbe;
use os::pidfd::PidFd;
use os::process::Status;
use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Role of this program: an heir that replaces one that died.
pub const ROLE: &str = "__heir";
/// How long an answer may be late because the heir is being replaced.
const REPLACED_WITHIN: Duration = Duration::from_secs(3);
/// Behind a number: the heir is to answer.
const ANSWER: [u8; 4] = [1; 4];
/// Behind a user and a group: the heir is to make a witness.
const WITNESS: [u8; 4] = [2; 4];

/// The steward's way to its heir.
pub struct Watchdog {
    current: Mutex<Current>,
    replaced: Condvar,
    /// Who waits for an answer.
    asking: Mutex<()>,
    /// Processes whose pages are brought by the steward, for the next heir.
    with_memory: Mutex<HashMap<i32, (Arc<PidFd>, OwnedFd)>>,
}

/// The heir that there is.
struct Current {
    socket: Arc<OwnedFd>,
    /// Rises with each that replaces another.
    generation: u64,
    /// Nobody watches over deputies, and why.
    missing: Option<String>,
}

impl Watchdog {
    /// Forks it, for a room on this node.
    ///
    /// # Safety
    /// The calling process has one thread.
    pub unsafe fn beget(host: &str) -> os::Result<Watchdog> {
        let (ours, theirs) = os::socket::pair()?;
        // SAFETY: as the caller promises.
        match unsafe { os::namespace::fork_into(0)? } {
            Some(_) => Ok(Watchdog::at(ours)),
            None => {
                os::fds::close_others(&[theirs.as_raw_fd()]);
                wait(&theirs, host)
            }
        }
    }

    /// The one at the other end of this socket.
    pub fn at(socket: OwnedFd) -> Watchdog {
        let current = Current { socket: Arc::new(socket), generation: 0, missing: None };
        Watchdog {
            current: Mutex::new(current),
            replaced: Condvar::new(),
            asking: Mutex::new(()),
            with_memory: Mutex::default(),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_memory(&self) -> MutexGuard<'_, HashMap<i32, (Arc<PidFd>, OwnedFd)>> {
        self.with_memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket of the one that there is now, and its generation.
    pub fn socket(&self) -> (Arc<OwnedFd>, u64) {
        let current = self.current();
        (current.socket.clone(), current.generation)
    }

    /// Rises when the heir is replaced: what was entrusted meanwhile may have been lost with the
    /// last one.
    pub fn generation(&self) -> u64 {
        self.current().generation
    }

    /// New deputies can be taken.
    ///
    /// # Errors
    /// In words: nobody would end them if the steward died.
    pub fn is_there(&self) -> Result<(), String> {
        self.current().missing.clone().map_or(Ok(()), Err)
    }

    /// Has it make a witness for the process that is who `status` says.
    pub fn witness(&self, status: &Status) -> os::Result<LandlockProbe> {
        let packet = [status.uid[0].to_le_bytes(), status.gid[0].to_le_bytes(), WITNESS].concat();
        let mut answer = [0; 4];
        let (_, descriptors) = self.ask(&packet, &mut answer)?;
        let answer = i32::from_le_bytes(answer);
        match descriptors.into_iter().next() {
            Some(pidfd) => Ok(LandlockProbe::from_parts(answer, pidfd)),
            None => Err(os::Error::new("making a witness", std::io::Error::from_raw_os_error(answer))),
        }
    }

    /// Asks, and asks again the one that replaces an heir that has died.
    fn ask(&self, packet: &[u8], answer: &mut [u8]) -> os::Result<(usize, Vec<OwnedFd>)> {
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let (socket, generation) = self.socket();
        match ask_at(&socket, packet, answer) {
            Err(_) if self.is_replaced(generation) => ask_at(&self.socket().0, packet, answer),
            answered => answered,
        }
    }

    /// Another one takes over.
    pub fn succeed(&self, socket: OwnedFd) {
        let mut current = self.current();
        current.socket = Arc::new(socket);
        current.generation += 1;
        current.missing = None;
        self.replaced.notify_all();
    }

    /// Gives it the processes whose pages the steward brings.
    pub fn entrust_again(&self) {
        for (pid, (process, memory)) in self.with_memory().iter() {
            self.say(*pid, &[process.as_fd(), memory.as_fd()]);
        }
    }

    /// Says why new deputies cannot be taken until another one takes over.
    pub fn set_missing(&self, why: String) {
        self.current().missing = Some(why);
    }

    fn is_replaced(&self, generation: u64) -> bool {
        let waits = |current: &mut Current| current.generation == generation;
        let waited = self.replaced.wait_timeout_while(self.current(), REPLACED_WITHIN, waits);
        waited.is_ok_and(|(_, late)| !late.timed_out())
    }

    /// This process shall not outlive the steward.
    pub fn entrust(&self, pid: i32, deputy: &PidFd) {
        self.say(pid, &[deputy.as_fd()]);
    }

    /// Likewise, a process that runs, and whose pages are brought by the steward: while its
    /// userfaultfd is open, it waits for those that it misses.
    pub fn entrust_with_memory(&self, pid: i32, process: &Arc<PidFd>, memory: &OwnedFd) {
        let copy = memory.try_clone();
        let mut all = self.with_memory();
        all.retain(|_, (process, _)| process.kill(0).is_ok());
        match copy {
            Ok(copy) => drop(all.insert(pid, (process.clone(), copy))),
            Err(e) => tracing::warn!("an heir that replaces this one will not have the memory of process {pid}: {e}"),
        }
        drop(all);
        self.say(pid, &[process.as_fd(), memory.as_fd()]);
    }

    /// This process has its body back: it is nobody's deputy.
    pub fn dismiss(&self, pid: i32) {
        self.with_memory().remove(&pid);
        self.say(pid, &[]);
    }

    /// The same, of a process with its memory; returns when the heir has closed that.
    pub fn settle(&self, pid: i32) {
        self.with_memory().remove(&pid);
        let packet = [pid.to_le_bytes(), ANSWER].concat();
        if let Err(e) = self.ask(&packet, &mut [0; 4]) {
            tracing::warn!("the steward's heir: {e}");
        }
    }

    fn say(&self, pid: i32, deputy: &[BorrowedFd<'_>]) {
        let (socket, _) = self.socket();
        // One that replaces it is told of all.
        if let Err(e) = os::socket::send(socket.as_fd(), &[IoSlice::new(&pid.to_le_bytes())], deputy, 0) {
            tracing::warn!("the steward's heir: {e}");
        }
    }
}

fn ask_at(socket: &OwnedFd, packet: &[u8], answer: &mut [u8]) -> os::Result<(usize, Vec<OwnedFd>)> {
    os::socket::send(socket.as_fd(), &[IoSlice::new(packet)], &[], 0)?;
    match os::socket::receive(socket.as_fd(), answer, 0)? {
        (0, _) => Err(os::Error::new("asking the steward's heir", std::io::ErrorKind::UnexpectedEof)),
        answered => Ok(answered),
    }
}

/// Is the heir that replaces one that died. Its standard input is the steward's socket; the only
/// word behind the role's name is the node that hosts the room.
pub fn main(args: &[String]) -> ExitCode {
    os::fds::close_others(&[]);
    let host = args.first().map_or("", String::as_str);
    // SAFETY: this process was started with that descriptor open, and nothing else here uses it.
    let steward = unsafe { OwnedFd::from_raw_fd(0) };
    wait(&steward, host)
}

struct Held {
    pid: i32,
    process: PidFd,
    memory: Option<OwnedFd>,
}

fn wait(steward: &OwnedFd, host: &str) -> ! {
    // Witnesses are reaped by the kernel.
    // SAFETY: no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let mut held: Vec<Held> = Vec::new();
    loop {
        let (said, ended) = ready(steward, &held);
        let mut ended = ended.into_iter();
        held.retain(|_| ended.next() != Some(true));
        if !said {
            continue;
        }
        let mut packet = [[0; 4]; 3];
        match os::socket::receive(steward.as_fd(), packet.as_flattened_mut(), 0) {
            Ok((1.., _)) if packet[2] == WITNESS => {
                let made = LandlockProbe::of_user(u32::from_le_bytes(packet[0]), u32::from_le_bytes(packet[1]));
                let (answer, pidfd) = made.map_or_else(|e| (e.errno(), None), LandlockProbe::into_parts);
                let descriptors: Vec<_> = pidfd.iter().map(PidFd::as_fd).collect();
                let _ = os::socket::send(steward.as_fd(), &[IoSlice::new(&answer.to_le_bytes())], &descriptors, 0);
            }
            Ok((1.., descriptors)) => {
                let pid = i32::from_le_bytes(packet[0]);
                held.retain(|known| known.pid != pid);
                let mut descriptors = descriptors.into_iter();
                held.extend(descriptors.next().map(|p| Held { pid, process: p.into(), memory: descriptors.next() }));
                if packet[1] == ANSWER {
                    // A steward that is gone is noticed next.
                    let _ = os::socket::send(steward.as_fd(), &[IoSlice::new(&packet[0])], &[], 0);
                }
            }
            Err(e) if e.errno() == libc::EINTR => {}
            Ok((0, _)) | Err(_) => break,
        }
    }
    last_words::tell(&held, host);
    held.iter().for_each(|held| drop(held.process.kill(libc::SIGKILL)));
    std::process::exit(0)
}

/// Waits until the steward speaks or a deputy ends: whether it does, and which have.
fn ready(steward: &OwnedFd, held: &[Held]) -> (bool, Vec<bool>) {
    let watched = |fd: BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<_> =
        [steward.as_fd()].into_iter().chain(held.iter().map(|h| h.process.as_fd())).map(watched).collect();
    // SAFETY: live pollfds.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
    (polled[0].revents != 0, polled[1..].iter().map(|p| p.revents != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn what_was_entrusted_ends() {
        let (ours, theirs) = os::socket::pair().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let heir = Watchdog::at(ours);
        // SAFETY: the child makes system calls, and allocates, which glibc allows after its fork.
        let heirs = unsafe { libc::fork() };
        if heirs == 0 {
            drop(heir);
            wait(&theirs, "n2");
        }
        (0..100).for_each(|_| heir.entrust(child.id() as i32, &PidFd::open(child.id() as i32).unwrap()));
        let status = os::process::status(std::process::id() as i32).unwrap();
        let witness = heir.witness(&status).unwrap();
        let (_, [pid, ..]) = witness.looked_into();
        let alive = || os::process::status(pid as i32).is_ok_and(|s| s.state != 'Z');
        assert!(alive() && os::process::status(pid as i32).unwrap().uid == status.uid);
        drop(witness);
        while alive() {
            std::thread::yield_now();
        }
        let open = || os::process::descriptors(heirs).unwrap().len();
        let before = open();
        (0..10).for_each(|_| drop(heir.witness(&status).unwrap()));
        let begun = std::time::Instant::now();
        while open() > before {
            assert!(begun.elapsed().as_secs() < 10, "it keeps something of them");
            std::thread::yield_now();
        }
        drop(heir);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
