//! The heir: a process forked from the steward at its start, which does nothing but outlive it. A deputy that waits in a forwarded call does not
//! hear that its steward has died; the heir holds all deputies, and kills those that are left.

use os::pidfd::PidFd;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Behind a number: the heir is to answer.
const ANSWER: [u8; 4] = [1; 4];

/// The steward's way to its heir.
pub struct Heir(OwnedFd);

impl Heir {
    /// Forks it.
    ///
    /// # Safety
    /// The calling process has one thread.
    pub unsafe fn beget() -> os::Result<Heir> {
        let (ours, theirs) = os::socket::pair()?;
        // SAFETY: as the caller promises.
        match unsafe { os::namespace::fork_into(0)? } {
            Some(_) => Ok(Heir(ours)),
            None => {
                os::fds::close_others(&[theirs.as_raw_fd()]);
                wait(&theirs)
            }
        }
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
        let asked = os::socket::send(self.0.as_fd(), &[IoSlice::new(&packet)], &[], 0);
        if let Err(e) = asked.and_then(|()| os::socket::receive(self.0.as_fd(), &mut [0; 4], 0)) {
            tracing::warn!("the steward's heir: {e}");
        }
    }

    fn say(&self, pid: i32, deputy: &[BorrowedFd<'_>]) {
        if let Err(e) = os::socket::send(self.0.as_fd(), &[IoSlice::new(&pid.to_le_bytes())], deputy, 0) {
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
    let mut held: Vec<Held> = Vec::new();
    loop {
        let (said, ended) = ready(steward, &held);
        let mut ended = ended.into_iter();
        held.retain(|_| ended.next() != Some(true));
        if !said {
            continue;
        }
        let mut packet = [[0; 4]; 2];
        match os::socket::receive(steward.as_fd(), packet.as_flattened_mut(), 0) {
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
        let heir = Heir(ours);
        // SAFETY: the child makes system calls, and allocates, which glibc allows after its fork.
        if unsafe { libc::fork() } == 0 {
            drop(heir);
            wait(&theirs);
        }
        (0..100).for_each(|_| heir.entrust(child.id() as i32, &PidFd::open(child.id() as i32).unwrap()));
        drop(heir);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
