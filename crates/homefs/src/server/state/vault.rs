//! Vaults: open files beyond what one table of descriptors holds.
//!
//! # The problem
//!
//! All programs of a room have their files open in the one process at home that serves them, and
//! each program may have as many as its own limit allows (RLIMIT_NOFILE). That process has a limit,
//! too, which nobody may raise in a container. Two programs at their limit would leave nothing for
//! the other programs of the room.
//!
//! # Ways weighed
//!
//! Closing files and opening them again by handle loses removed files, and needs rights again that
//! were granted before. More processes need a parent, and the steward must not fork.
//!
//! # The way taken
//!
//! The limit counts one *table* of descriptors, and a thread may have a table of its own
//! (unshare(2), CLONE_FILES). A vault is a thread that only keeps descriptors in its own table. A
//! file goes there and back in a message (SCM_RIGHTS). It is the same open file all the time, with
//! its offset, its locks, and its content if it was removed.

use super::mutex::lock;
use crate::sys;
use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, mpsc};

/// Descriptors of a table that a vault leaves free.
const SPARE: usize = 16;
/// The message to a vault to keep the file that comes with it.
const KEEP: i32 = 0;
/// The message to a vault to give the file of this number back.
const GIVE: i32 = 1;

/// A file in a vault. It stays there until it is taken.
#[derive(Debug)]
pub(crate) struct Slot {
    vault: usize,
    number: i32,
}

/// The vaults of a server, created as they are needed.
pub(crate) struct Vaults {
    /// The number of files that one vault holds.
    each: usize,
    all: Mutex<Vec<Vault>>,
}

/// The socket of a vault, and the number of its files.
struct Vault {
    socket: OwnedFd,
    kept: usize,
}

impl Vaults {
    /// Creates no vault yet. `limit` is the number of descriptors in one table.
    pub(crate) fn new(limit: usize) -> Vaults {
        Vaults { each: limit.saturating_sub(SPARE).max(1), all: Mutex::default() }
    }

    /// Puts an open file into a vault. The caller may close its own descriptor.
    ///
    /// # Errors
    /// No vault can be created, or the kernel has no more open files.
    pub(crate) fn keep(&self, file: BorrowedFd<'_>) -> Result<Slot> {
        let mut all = lock(&self.all);
        let free = all.iter().position(|vault| vault.kept < self.each);
        let at = match free {
            Some(at) => at,
            None => {
                all.push(Vault { socket: begin()?, kept: 0 });
                all.len() - 1
            }
        };
        let vault = &mut all[at];
        send(vault.socket.as_fd(), [KEEP, 0], Some(file))?;
        let ([result, number], _) = receive(vault.socket.as_fd())?;
        if result != 0 {
            return Err(Errno::from_raw_os_error(result));
        }
        vault.kept += 1;
        Ok(Slot { vault: at, number })
    }

    /// Takes an open file out of its vault.
    ///
    /// # Errors
    /// This process has no free descriptor; the file stays in the vault.
    pub(crate) fn take(&self, slot: &Slot) -> Result<OwnedFd> {
        let mut all = lock(&self.all);
        let vault = all.get_mut(slot.vault).ok_or(Errno::BADF)?;
        send(vault.socket.as_fd(), [GIVE, slot.number], None)?;
        let (_, file) = receive(vault.socket.as_fd())?;
        let come = i32::from(file.is_none());
        send(vault.socket.as_fd(), [come, slot.number], None)?;
        let file = file.ok_or(Errno::MFILE)?;
        vault.kept -= 1;
        Ok(file)
    }
}

/// Starts the thread of a vault.
fn begin() -> Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let (ready, is_ready) = mpsc::channel();
    let number = theirs.as_raw_fd();
    let run = move || {
        let apart = sys::own_table(number);
        let is_apart = apart.is_ok();
        if ready.send(apart).is_ok() && is_apart {
            // SAFETY: this thread's table is its own, and nothing else owns this number in it.
            serve(&unsafe { OwnedFd::from_raw_fd(number) });
        }
    };
    let spawned = std::thread::Builder::new().name("vault".into()).spawn(run);
    spawned.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
    is_ready.recv().map_err(|_| Errno::AGAIN)??;
    // In the common table this number is free from here on; the vault has its copy.
    drop(theirs);
    Ok(ours)
}

/// Keeps files until nobody can ask for one any more.
fn serve(socket: &OwnedFd) {
    let mut kept: HashMap<RawFd, OwnedFd> = HashMap::new();
    while let Ok((words, file)) = receive(socket.as_fd()) {
        let answered = match (words, file) {
            ([KEEP, _], Some(file)) => {
                let number = file.as_raw_fd();
                kept.insert(number, file);
                send(socket.as_fd(), [0, number], None)
            }
            ([KEEP, _], None) => send(socket.as_fd(), [libc::EMFILE, 0], None),
            ([_, number], _) => give(socket.as_fd(), &mut kept, number),
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Gives a file back, and forgets it when it has arrived.
fn give(socket: BorrowedFd<'_>, kept: &mut HashMap<RawFd, OwnedFd>, number: i32) -> Result<()> {
    send(socket, [0, number], kept.get(&number).map(AsFd::as_fd))?;
    let ([come, _], _) = receive(socket)?;
    if come == 0 {
        kept.remove(&number);
    }
    Ok(())
}

fn send(socket: BorrowedFd<'_>, words: [i32; 2], file: Option<BorrowedFd<'_>>) -> Result<()> {
    let bytes = [words[0].to_ne_bytes(), words[1].to_ne_bytes()].concat();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut more = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() {
        more.push(SendAncillaryMessage::ScmRights(files));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut more, SendFlags::NOSIGNAL).map(drop)
}

/// Receives a message, with its file if one came.
fn receive(socket: BorrowedFd<'_>) -> Result<([i32; 2], Option<OwnedFd>)> {
    let mut bytes = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut more = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut into = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket, &mut into, &mut more, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.bytes != bytes.len() {
        return Err(Errno::CONNRESET);
    }
    let file = more.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let word = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Ok(([word(0), word(4)], file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{SeekFrom, seek};

    fn open() -> OwnedFd {
        std::fs::File::open("/proc/self/exe").unwrap().into()
    }

    #[test]
    fn a_file_comes_back_as_it_went() {
        let vaults = Vaults::new(SPARE + 2);
        let files: Vec<OwnedFd> = (0..5).map(|_| open()).collect();
        let slots: Vec<Slot> = files.iter().map(|file| vaults.keep(file.as_fd()).unwrap()).collect();
        assert_eq!(lock(&vaults.all).len(), 3, "two in each");
        for (n, file) in files.iter().enumerate() {
            seek(file, SeekFrom::Start(n as u64 + 10)).unwrap();
        }
        drop(files);
        for (n, slot) in slots.iter().enumerate().rev() {
            let file = vaults.take(slot).unwrap();
            assert_eq!(rustix::fs::tell(file).unwrap(), n as u64 + 10, "one open file");
        }
        assert!(lock(&vaults.all).iter().all(|vault| vault.kept == 0));
    }

    #[test]
    fn files_in_a_vault_take_no_descriptor_here() {
        let vaults = Vaults::new(1000);
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let _first = vaults.keep(open().as_fd()).unwrap();
        let before = count();
        let slots: Vec<Slot> = (0..400).map(|_| vaults.keep(open().as_fd()).unwrap()).collect();
        assert!(count() < before + 200, "{} descriptors, {before} before", count());
        // A pipe whose end is in a vault stays open. It ends when the end is taken out and closed.
        let (read, write) = std::io::pipe().unwrap();
        let kept = vaults.keep(write.as_fd()).unwrap();
        drop(write);
        rustix::io::ioctl_fionbio(&read, true).unwrap();
        assert_eq!(rustix::io::read(&read, &mut [0; 1]), Err(Errno::AGAIN));
        drop(vaults.take(&kept).unwrap());
        assert_eq!(rustix::io::read(&read, &mut [0; 1]), Ok(0));
        drop(slots);
    }
}
