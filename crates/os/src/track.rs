//! Which pages a running process writes (userfaultfd(2) with WP_ASYNC, and PAGEMAP_SCAN: Linux
//! 6.7).
//!
//! Pages that were looked at are write-protected; the first write to one clears that mark in the
//! kernel, without anybody being asked. Areas that are not watched read as written.

use crate::pages::{
    PAGE_IS_FILE, PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PAGE_IS_WPALLOWED, PAGE_IS_WRITTEN, Query, pieces,
    scan,
};
use crate::{Error, Result};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

/// `_IOWR(0xaa, 0x3f, struct uffdio_api)` and `_IOWR(0xaa, 0, struct uffdio_register)`
/// (linux/userfaultfd.h).
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const PM_SCAN_WP_MATCHING: u64 = 1;

/// Flags with which the process makes its userfaultfd: close-on-exec, and no fault of the kernel's
/// is handled (none needs to be), which needs no privilege.
pub const USERFAULTFD_FLAGS: u64 = libc::O_CLOEXEC as u64 | 1;

/// Watches a process' writes. Dropping it ends that.
#[derive(Debug)]
pub struct Tracker {
    uffd: OwnedFd,
    pagemap: File,
    pid: i32,
}

/// Pages at a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Own pages that were written since they were protected (or were never), start and end,
    /// ascending.
    pub written: Vec<(u64, u64)>,
    /// All own pages.
    pub own: Vec<(u64, u64)>,
}

impl Tracker {
    /// `uffd` was made by process `pid`, and is not in use.
    ///
    /// # Errors
    /// `Unsupported` before Linux 6.7.
    pub fn new(uffd: OwnedFd, pid: i32) -> Result<Tracker> {
        begin(&uffd, UFFD_FEATURE_WP_ASYNC, pid)?;
        Ok(Tracker { uffd, pagemap: open_pagemap(pid)?, pid })
    }

    /// PID of the process whose pages are tracked.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Watches this area too.
    pub fn watch(&self, start: u64, end: u64) -> Result<()> {
        let mut register = [start, end - start, UFFDIO_REGISTER_MODE_WP, 0u64];
        // SAFETY: the kernel reads and writes four words.
        let done = unsafe { libc::ioctl(self.uffd.as_raw_fd(), UFFDIO_REGISTER, register.as_mut_ptr()) };
        crate::error::check(done, || format!("watching the writes of {} at {start:#x}", self.pid)).map(drop)
    }

    /// Lists own pages between these addresses that were written since the last call, and protects
    /// them again. `anonymous`: areas, ascending, without pages of files.
    pub fn take_written(&self, start: u64, end: u64, anonymous: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
        let mut written = Vec::new();
        for piece in pieces(start, end, anonymous) {
            let query = Query {
                // A page of an area that is not watched must not get the mark of the protection: a
                // write would not remove it.
                all_of: PAGE_IS_WRITTEN | PAGE_IS_WPALLOWED,
                any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                flags: PM_SCAN_WP_MATCHING,
                report: piece.report,
                ..Query::of(piece.start, piece.end)
            };
            scan(&self.pagemap, self.pid, query, |range, categories| {
                if categories & (PAGE_IS_FILE | PAGE_IS_PFNZERO) == 0 {
                    crate::pages::append(&mut written, range.0, range.1);
                }
            })?;
        }
        Ok(written)
    }

    /// Lists own pages of a stopped process between these addresses. If the process has executed a
    /// program, it has another memory, which is not watched. `anonymous`: areas, ascending, without
    /// pages of files.
    pub fn look(&self, start: u64, end: u64, anonymous: &[(u64, u64)]) -> Result<Found> {
        let mut found = Found::default();
        let pagemap = open_pagemap(self.pid)?;
        for piece in pieces(start, end, anonymous) {
            let any_of = PAGE_IS_PRESENT | PAGE_IS_SWAPPED;
            let query = Query { any_of, report: piece.report, ..Query::of(piece.start, piece.end) };
            scan(&pagemap, self.pid, query, |range, categories| {
                if categories & (PAGE_IS_FILE | PAGE_IS_PFNZERO) == 0 {
                    crate::pages::append(&mut found.own, range.0, range.1);
                    if categories & PAGE_IS_WRITTEN != 0 || categories & PAGE_IS_WPALLOWED == 0 {
                        crate::pages::append(&mut found.written, range.0, range.1);
                    }
                }
            })?;
        }
        Ok(found)
    }
}

fn begin(uffd: &OwnedFd, feature: u64, pid: i32) -> Result<()> {
    let mut api = [UFFD_API, feature, 0u64];
    // SAFETY: the kernel reads and writes three words.
    let done = unsafe { libc::ioctl(uffd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) };
    let doing = || format!("watching the writes of {pid}");
    match crate::error::check(done, doing) {
        Err(e) if e.errno() == libc::EINVAL => {
            let why = "the kernel there does not tell which pages are written (Linux 6.7 and later do): without --how, another way is taken";
            Err(Error::new(doing(), std::io::Error::new(std::io::ErrorKind::Unsupported, why)))
        }
        done => done.map(drop),
    }
}

fn open_pagemap(pid: i32) -> Result<File> {
    let path = format!("/proc/{pid}/pagemap");
    File::open(&path).map_err(|e| Error::new(format!("opening {path}"), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    const PAGE: u64 = 4096;

    #[test]
    fn an_older_kernel_is_named() {
        // SAFETY: a new descriptor, or an error.
        let uffd = unsafe { libc::syscall(libc::SYS_userfaultfd, USERFAULTFD_FLAGS) } as i32;
        assert!(uffd >= 0);
        // SAFETY: it is ours alone.
        let uffd = unsafe { OwnedFd::from_raw_fd(uffd) };
        // A feature that no kernel has is refused as a new one is by an old kernel.
        let refused = begin(&uffd, 1 << 63, 1).unwrap_err();
        assert!(refused.to_string().contains("Linux 6.7"), "{refused}");
    }

    /// On a kernel without WP_ASYNC there is nothing to test: pre-copy is not chosen there.
    #[test]
    fn writes_are_seen_once() {
        let pid = std::process::id() as i32;
        // SAFETY: a new descriptor, or an error.
        let uffd = unsafe { libc::syscall(libc::SYS_userfaultfd, USERFAULTFD_FLAGS) } as i32;
        assert!(uffd >= 0);
        // SAFETY: it is ours alone.
        let Ok(tracker) = Tracker::new(unsafe { OwnedFd::from_raw_fd(uffd) }, pid) else { return };
        let bytes = 64 * PAGE as usize;
        let (rw, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rw, flags, -1, 0) };
        // SAFETY: inside that mapping.
        let write = |page: u64| unsafe { at.cast::<u8>().add((page * PAGE) as usize).write_volatile(1) };
        let (start, page) = (at as u64, |n: u64| at as u64 + n * PAGE);
        let end = page(64);
        tracker.watch(start, end).unwrap();
        [3, 4, 9].into_iter().for_each(write);
        let all = vec![(page(3), page(5)), (page(9), page(10))];
        assert_eq!(tracker.take_written(start, end, &[(start, end)]).unwrap(), all);
        assert_eq!(tracker.take_written(start, end, &[(start, end)]).unwrap(), []);
        [4, 20].into_iter().for_each(write);
        let found = tracker.look(start, end, &[(start, end)]).unwrap();
        assert_eq!(found.written, [(page(4), page(5)), (page(20), page(21))]);
        assert_eq!(found.own, [(page(3), page(5)), (page(9), page(10)), (page(20), page(21))]);
        assert_eq!(tracker.take_written(start, end, &[(start, end)]).unwrap(), found.written);
        // SAFETY: the mapping of above.
        unsafe { libc::madvise(at.add(9 * PAGE as usize), PAGE as usize, libc::MADV_DONTNEED) };
        assert_eq!(tracker.look(start, end, &[(start, end)]).unwrap().own, [(page(3), page(5)), (page(20), page(21))]);
    }
}
