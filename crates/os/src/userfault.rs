//! Pages of a process that come when it touches them (userfaultfd(2), missing pages), whoever
//! touches them: the process, or the kernel in a call of its.
//!
//! A userfaultfd belongs to the memory of the process that makes it, and one that sees faults of
//! the kernel's takes a privilege that programs do not have. So the process makes it through
//! /dev/userfaultfd (Linux 6.1), which a privileged process opened.

use crate::error::check;
use crate::{Error, Result};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Request to an open /dev/userfaultfd: a new userfaultfd for the memory of the caller; the
/// argument is its flags (linux/userfaultfd.h).
pub const USERFAULTFD_IOC_NEW: u64 = 0xaa00;

const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_WAKE: libc::c_ulong = 0x8010_aa02;
const UFFDIO_COPY: libc::c_ulong = 0xc028_aa03;
const UFFDIO_ZEROPAGE: libc::c_ulong = 0xc020_aa04;
const REGISTER_MODE_MISSING: u64 = 1;
const FEATURE_EVENT_FORK: u64 = 1 << 1;
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
const FEATURE_EVENT_REMOVE: u64 = 1 << 3;
const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_FORK: u8 = 0x13;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;
const PAGE: u64 = 4096;

/// Opens the device /dev/userfaultfd.
pub fn device() -> Result<File> {
    let path = "/dev/userfaultfd";
    File::options().read(true).write(true).open(path).map_err(|e| Error::new(format!("opening {path}"), e))
}

/// The memory of a process whose missing pages we bring.
#[derive(Debug)]
pub struct Userfault(OwnedFd);

/// What happens in that memory. Who causes it waits until it was read (a fault: until the page is
/// there).
#[derive(Debug)]
pub enum Happening {
    /// Somebody waits for this page.
    Fault(u64),
    /// A child has a copy of the memory.
    Fork(Userfault),
    /// So many bytes from here are there now.
    Moved {
        /// The address before.
        from: u64,
        /// The address now.
        to: u64,
        /// The length, bytes.
        bytes: u64,
    },
    /// What lay between these addresses was given back.
    Gone(u64, u64),
}

/// What became of pages that were put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// So many bytes are there, at least a page.
    Done(u64),
    /// The first page was there already.
    Present,
    /// No such memory, or not all of it in one area.
    Elsewhere,
    /// The memory is being changed: read what happens first.
    Changing,
    /// The process has ended, or runs another program.
    Ended,
}

impl Userfault {
    /// `fd` was made by the process, and is not in use.
    pub fn new(fd: OwnedFd) -> Result<Userfault> {
        let features = FEATURE_EVENT_FORK | FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP;
        let mut api = [UFFD_API, features, 0u64];
        // SAFETY: the kernel reads and writes three words.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) }, || {
            "watching a process' missing pages".into()
        })?;
        Userfault(fd).unblocking()
    }

    fn unblocking(self) -> Result<Userfault> {
        // SAFETY: sets a flag.
        check(unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }, || {
            "setting a userfaultfd's flags".into()
        })?;
        Ok(self)
    }

    /// Pages of this area (anonymous, private) that are not there are missing from now on.
    pub fn register(&self, start: u64, end: u64) -> Result<()> {
        let mut register = [start, end - start, REGISTER_MODE_MISSING, 0u64];
        // SAFETY: the kernel reads and writes four words.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), UFFDIO_REGISTER, register.as_mut_ptr()) }, || {
            format!("watching missing pages at {start:#x}")
        })
        .map(drop)
    }

    /// Puts whole pages there, and wakes who waits for them.
    pub fn copy(&self, at: u64, bytes: &[u8]) -> Result<Put> {
        let mut copy = [at, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0u64];
        // SAFETY: the kernel reads five words, writes the last one, and reads the slice.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), UFFDIO_COPY, copy.as_mut_ptr()) };
        put(done, copy[4] as i64, || format!("putting pages at {at:#x}"))
    }

    /// Puts pages of zeros there, and wakes who waits for them.
    pub fn zero(&self, at: u64, bytes: u64) -> Result<Put> {
        let mut zero = [at, bytes, 0, 0u64];
        // SAFETY: the kernel reads four words and writes the last one.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), UFFDIO_ZEROPAGE, zero.as_mut_ptr()) };
        put(done, zero[3] as i64, || format!("putting zeros at {at:#x}"))
    }

    /// Wakes who waits for these pages: they are there, or are not missing.
    pub fn wake(&self, at: u64, bytes: u64) {
        let mut range = [at, bytes];
        // SAFETY: the kernel reads two words. Who is not waked here has not waited.
        unsafe { libc::ioctl(self.0.as_raw_fd(), UFFDIO_WAKE, range.as_mut_ptr()) };
    }

    /// Reads the next event; `None` if there is none at the moment.
    pub fn next(&self) -> Result<Option<Happening>> {
        let mut message = [0u64; 4];
        // SAFETY: the kernel writes at most 32 bytes (struct uffd_msg).
        let n = unsafe { libc::read(self.0.as_raw_fd(), message.as_mut_ptr().cast(), 32) };
        match check(n, || "reading what happens in a process' memory".into()) {
            Err(e) if matches!(e.errno(), libc::EAGAIN | libc::EINTR) => Ok(None),
            Err(e) => Err(e),
            Ok(_) => self.read(message),
        }
    }

    fn read(&self, [head, a, b, c]: [u64; 4]) -> Result<Option<Happening>> {
        Ok(Some(match head as u8 {
            // Flags, address, thread.
            EVENT_PAGEFAULT => Happening::Fault(b & !(PAGE - 1)),
            // SAFETY: the kernel put the child's userfaultfd into our table with this message.
            EVENT_FORK => Happening::Fork(Userfault(unsafe { OwnedFd::from_raw_fd(a as i32) }).unblocking()?),
            EVENT_REMAP => Happening::Moved { from: a, to: b, bytes: c },
            EVENT_REMOVE | EVENT_UNMAP => Happening::Gone(a, b),
            _ => return Ok(None),
        }))
    }

    /// For poll: readable when something happens.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}

fn put(done: i32, bytes: i64, doing: impl FnOnce() -> String) -> Result<Put> {
    if bytes > 0 {
        return Ok(Put::Done(bytes as u64));
    }
    match check(done, doing) {
        Ok(_) => Ok(Put::Done(0)),
        Err(e) => match e.errno() {
            libc::EEXIST => Ok(Put::Present),
            libc::ENOENT | libc::EINVAL | libc::EFAULT => Ok(Put::Elsewhere),
            libc::EAGAIN => Ok(Put::Changing),
            libc::ESRCH => Ok(Put::Ended),
            _ => Err(e),
        },
    }
}
