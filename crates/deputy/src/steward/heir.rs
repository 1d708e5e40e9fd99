//! The heir: a process forked from the steward at its start, small as that was then. It outlives the steward: a deputy that waits in a forwarded call does not
//! hear that its steward has died; the heir holds all deputies, and kills those that are left.
//!
//! And it makes processes for the steward. To fork that itself would leave it with faults on every page that it writes next, while programs stand still.

use os::pidfd::PidFd;
use os::process::Status;
use os::witness::Witness;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Behind a number: the heir is to answer.
const ANSWER: [u8; 4] = [1; 4];
/// Behind a user and a group: the heir is to make a witness.
const WITNESS: [u8; 4] = [2; 4];

/// The steward's way to its heir.
pub struct Heir {
    socket: OwnedFd,
    /// Who waits for an answer.
    asking: Mutex<()>,
}

impl Heir {
    /// Forks it.
    ///
    /// # Safety
    /// The calling process has one thread.
    pub unsafe fn beget() -> os::Result<Heir> {
        let (ours, theirs) = os::socket::pair()?;
        // SAFETY: as the caller promises.
        match unsafe { os::namespace::fork_into(0)? } {
            Some(_) => Ok(Heir::at(ours)),
            None => {
                os::fds::close_others(&[theirs.as_raw_fd()]);
                wait(&theirs)
            }
        }
    }

    /// The one at the other end of this socket.
    pub(super) fn at(socket: OwnedFd) -> Heir {
        Heir { socket, asking: Mutex::new(()) }
    }

    /// Has it make a witness for the process that is who `status` says.
    pub fn witness(&self, status: &Status) -> os::Result<Witness> {
        let packet = [status.uid[0].to_le_bytes(), status.gid[0].to_le_bytes(), WITNESS].concat();
        let mut answer = [0; 4];
        let (_, descriptors) = self.ask(&packet, &mut answer)?;
        let answer = i32::from_le_bytes(answer);
        match descriptors.into_iter().next() {
            Some(pidfd) => Ok(Witness::from_parts(answer, pidfd)),
            None => Err(os::Error::new("making a witness", std::io::Error::from_raw_os_error(answer))),
        }
    }

    fn ask(&self, packet: &[u8], answer: &mut [u8]) -> os::Result<(usize, Vec<OwnedFd>)> {
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        os::socket::send(self.socket.as_fd(), &[IoSlice::new(packet)], &[], 0)?;
        os::socket::receive(self.socket.as_fd(), answer, 0)
    }

    /// This process shall not outlive the steward.
    pub fn entrust(&self, pid: i32, deputy: &PidFd) {
        self.say(pid, &[deputy.as_fd()]);
    }

    /// Likewise, a process that runs, and whose pages are brought by the steward: while its userfaultfd is open, it waits for those that it misses.
    pub fn entrust_with_memory(&self, pid: i32, process: &PidFd, memory: &OwnedFd) {
        self.say(pid, &[process.as_fd(), memory.as_fd()]);
    }

    /// This process has its body back: it is nobody's deputy.
    pub fn dismiss(&self, pid: i32) {
        self.say(pid, &[]);
    }

    /// The same, of a process with its memory; returns when the heir has closed that.
    pub fn settle(&self, pid: i32) {
        let packet = [pid.to_le_bytes(), ANSWER].concat();
        if let Err(e) = self.ask(&packet, &mut [0; 4]) {
            tracing::warn!("the steward's heir: {e}");
        }
    }

    fn say(&self, pid: i32, deputy: &[BorrowedFd<'_>]) {
        if let Err(e) = os::socket::send(self.socket.as_fd(), &[IoSlice::new(&pid.to_le_bytes())], deputy, 0) {
            tracing::warn!("the steward's heir: {e}");
        }
    }
}

struct Held {
    pid: i32,
    process: PidFd,
    _memory: Option<OwnedFd>,
}

fn wait(steward: &OwnedFd) -> ! {
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
                let made = Witness::of_user(u32::from_le_bytes(packet[0]), u32::from_le_bytes(packet[1]));
                let (answer, pidfd) = made.map_or_else(|e| (e.errno(), None), Witness::into_parts);
                let descriptors: Vec<_> = pidfd.iter().map(PidFd::as_fd).collect();
                let _ = os::socket::send(steward.as_fd(), &[IoSlice::new(&answer.to_le_bytes())], &descriptors, 0);
            }
            Ok((1.., descriptors)) => {
                let pid = i32::from_le_bytes(packet[0]);
                held.retain(|known| known.pid != pid);
                let mut descriptors = descriptors.into_iter();
                held.extend(descriptors.next().map(|p| Held { pid, process: p.into(), _memory: descriptors.next() }));
                if packet[1] == ANSWER {
                    // A steward that is gone is noticed next.
                    let _ = os::socket::send(steward.as_fd(), &[IoSlice::new(&packet[0])], &[], 0);
                }
            }
            Err(e) if e.errno() == libc::EINTR => {}
            Ok((0, _)) | Err(_) => break,
        }
    }
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
        let heir = Heir::at(ours);
        // SAFETY: the child makes system calls, and allocates, which glibc allows after its fork.
        let heirs = unsafe { libc::fork() };
        if heirs == 0 {
            drop(heir);
            wait(&theirs);
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
