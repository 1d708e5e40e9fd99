//! Memory that is nice to have and can be done without: the kernel takes it whenever it needs some
//! (madvise(2), MADV_FREE), and until then it costs nobody anything.

use crate::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::NonNull;

const PAGE: usize = 4096;

/// Pages that may be taken. They are only written: what is read might be taken meanwhile.
#[derive(Debug)]
pub struct ReclaimableMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and no thread-local state is involved.
unsafe impl Send for ReclaimableMemory {}
// SAFETY: shared, it can neither be read nor written.
unsafe impl Sync for ReclaimableMemory {}

impl ReclaimableMemory {
    /// So many pages, of zeros.
    pub fn new(pages: usize) -> Result<ReclaimableMemory> {
        let bytes = pages.max(1) * PAGE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, rights, MapFlags::PRIVATE) };
        let start = start.map_err(|e| Error::new("mapping memory", e))?;
        let start =
            NonNull::new(start.cast()).ok_or_else(|| Error::new("mapping memory", std::io::ErrorKind::OutOfMemory))?;
        Ok(ReclaimableMemory { start, bytes })
    }

    /// Gives the number of pages.
    pub fn pages(&self) -> usize {
        self.bytes / PAGE
    }

    /// Writes the page of this number; whether there is one.
    pub fn put(&mut self, number: usize, page: &[u8]) -> bool {
        let fits = number < self.pages() && page.len() == PAGE;
        if fits {
            // SAFETY: the page lies in the mapping, which nobody else has.
            unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), self.start.as_ptr().add(number * PAGE), PAGE) };
        }
        fits
    }

    /// From now on the kernel may take what was written so far.
    pub fn cede(&mut self) {
        // SAFETY: the mapping is ours, and its content may change to zeros at any time: nobody has
        // a reference to it. A kernel that does not know this advice keeps the pages until they are
        // dropped.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxFree) };
    }

    /// The kernel takes nothing any more; what it has taken is zero.
    pub fn claim(self) -> Claimed {
        for number in 0..self.pages() {
            // SAFETY: the byte lies in the mapping, which nobody else has. Writing to a page is
            // what keeps it (madvise(2)); one that is taken between the two is zero but for this
            // byte, as if it had been written so.
            unsafe {
                let first = self.start.as_ptr().add(number * PAGE);
                first.write_volatile(first.read_volatile());
            }
        }
        Claimed(self)
    }
}

impl Drop for ReclaimableMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference to it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Pages that stay.
#[derive(Debug)]
pub struct Claimed(ReclaimableMemory);

impl Claimed {
    /// Gives the page of this number.
    pub fn page(&self, number: usize) -> Option<&[u8]> {
        // SAFETY: the page lies in the mapping, is initialized, and is neither written nor taken
        // while this value lives.
        (number < self.0.pages())
            .then(|| unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().add(number * PAGE), PAGE) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_there() {
        let mut ceded = ReclaimableMemory::new(3).unwrap();
        assert!(ceded.put(0, &[1; PAGE]) && ceded.put(2, &[3; PAGE]));
        assert!(!ceded.put(3, &[1; PAGE]) && !ceded.put(0, &[1; 7]));
        ceded.cede();
        assert!(ceded.put(2, &[4; PAGE]), "written again, it stays until it is ceded again");
        let claimed = ceded.claim();
        // Whoever runs this may be short of memory: what was ceded is whole or gone.
        let first = claimed.page(0).unwrap();
        assert!(first == [1; PAGE] || first[1..] == [0; PAGE - 1]);
        assert_eq!((claimed.page(1), claimed.page(2)), (Some(&[0; PAGE][..]), Some(&[4; PAGE][..])));
        assert_eq!(claimed.page(3), None);
    }

    /// The kernel is made to take it (MADV_PAGEOUT reclaims at once what it may).
    #[test]
    fn what_is_taken_is_zero() {
        let mut ceded = ReclaimableMemory::new(16).unwrap();
        (0..16).for_each(|number| assert!(ceded.put(number, &[7; PAGE])));
        ceded.cede();
        // SAFETY: as in `cede`.
        let paged_out = unsafe { madvise(ceded.start.as_ptr().cast(), ceded.bytes, Advice::LinuxPageOut) };
        let claimed = ceded.claim();
        let taken = (0..16).filter(|number| claimed.page(*number).unwrap()[1] == 0).count();
        for number in 0..16 {
            let page = claimed.page(number).unwrap();
            assert!(page[1..] == [7; PAGE - 1] || page[1..] == [0; PAGE - 1]);
        }
        assert!(paged_out.is_err() || taken > 0, "{paged_out:?}, {taken} taken");
    }
}
