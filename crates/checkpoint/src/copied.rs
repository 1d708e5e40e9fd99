//! Pre-copy of a small process: its pages are sent with no write tracking, and a copy is kept. At
//! the stop the pages that differ from the copy are sent again.

use crate::error::BodyError;
use crate::pages::{PAGE, Run, each_part, in_pieces, own_runs, without_zeros};
use image::{Area, Content};
use migration_plan::COPIED_BYTES_MAX;
use os::inject::Memory;
use os::pages::{Own, append, intersect};
use os::track::Found;
use std::sync::{Mutex, PoisonError};

/// The most bytes of private copies of files' pages that are sent ahead on their own.
pub const FILES_BYTES_MAX: u64 = 16 << 20;

/// A copy of pages as they were sent.
#[derive(Debug)]
pub struct Copied {
    pid: i32,
    runs: Vec<Run>,
    bytes: Vec<u8>,
    /// Buffer into which the pages of the stopped process are read; it is as large, and already
    /// mapped.
    place: Mutex<Vec<u8>>,
}

impl Copied {
    /// Copies the memory of the running process `pid`, which has these areas.
    ///
    /// # Errors
    /// The process unmaps memory meanwhile.
    pub fn of(pid: i32, areas: &[Area]) -> Result<Copied, BodyError> {
        Copied::of_at_most(pid, areas, COPIED_BYTES_MAX)
    }

    /// Copies only private copies of files' pages.
    pub fn of_files(pid: i32, areas: &[Area]) -> Result<Copied, BodyError> {
        let files: Vec<Area> =
            areas.iter().filter(|a| matches!(a.content, Content::File { .. }) && !a.shared).copied().collect();
        Copied::of_at_most(pid, &files, FILES_BYTES_MAX)
    }

    fn of_at_most(pid: i32, areas: &[Area], bytes_max: u64) -> Result<Copied, BodyError> {
        let runs = own_runs(&Own::of(pid)?, areas)?;
        let bytes = runs.iter().map(|run| run.1).sum::<u64>();
        if bytes > bytes_max {
            return Err(BodyError::NotMigratable("its memory has grown too large to be compared".into()));
        }
        let mut copied = vec![0; bytes as usize];
        Memory::of(pid)?.read_runs(&runs, &mut copied)?;
        let place = Mutex::new(copied.clone());
        Ok(Copied { pid, runs, bytes: copied, place })
    }

    /// Gives the pages to `send`, at most `at_once` bytes in each call. The destination has no
    /// pages yet, so zeros of anonymous memory are left out.
    pub fn each<E>(
        &self,
        areas: &[Area],
        batch_bytes: impl Fn() -> u64,
        mut send: impl FnMut(&[Run], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = 0;
        each_part(&self.runs, &batch_bytes, |runs, bytes| {
            let mut part = self.bytes[from..from + bytes].to_vec();
            from += bytes;
            let (runs, bytes) = without_zeros(&runs, areas, &mut part);
            if bytes > 0 { in_pieces(&runs, &part[..bytes], batch_bytes(), &mut send) } else { Ok(()) }
        })
    }

    /// Gives the number of copied bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Gives start and end of each copied range.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.runs.iter().map(|(at, bytes)| (*at, at + bytes)).collect()
    }

    /// Gives the id of the copied process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Finds the pages among `own` that differ from the copy. The process must be frozen.
    pub fn compare(&self, own: Vec<(u64, u64)>) -> Result<Found, BodyError> {
        let both = intersect(&own, &self.ranges());
        let runs: Vec<Run> = both.iter().map(|(start, end)| (*start, end - start)).collect();
        let mut now = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        now.resize(runs.iter().map(|run| run.1 as usize).sum(), 0);
        Memory::of(self.pid)?.read_runs(&runs, &mut now)?;
        let mut written = Vec::new();
        let pages = runs.iter().flat_map(|(at, bytes)| (*at..at + bytes).step_by(PAGE));
        for (at, page) in pages.zip(now.chunks_exact(PAGE)) {
            if self.page(at) != Some(page) {
                append(&mut written, at, at + PAGE as u64);
            }
        }
        Ok(Found { written, own })
    }

    fn page(&self, at: u64) -> Option<&[u8]> {
        let mut before = 0;
        for (start, bytes) in &self.runs {
            if (*start..start + bytes).contains(&at) {
                let from = before + (at - start) as usize;
                return self.bytes.get(from..from + PAGE);
            }
            before += *bytes as usize;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_in_the_copy() {
        let mut bytes = vec![0; 3 * PAGE];
        (bytes[0], bytes[PAGE], bytes[2 * PAGE]) = (1, 2, 3);
        let runs = vec![(0x1000, 0x2000), (0x8000, 0x1000)];
        let copied = Copied { pid: 0, runs, bytes, place: Mutex::default() };
        let first = |at| copied.page(at).map(|page| page[0]);
        assert_eq!([0x1000, 0x2000, 0x8000, 0x3000, 0x9000].map(first), [Some(1), Some(2), Some(3), None, None]);
    }

    #[test]
    fn differing_pages_are_found() {
        let pid = std::process::id() as i32;
        let mut memory = vec![7u8; 16 * PAGE];
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE as u64);
        let end = start + 8 * PAGE as u64;
        let areas = [Area::anonymous(start, end, 3)];
        let copied = Copied::of(pid, &areas).unwrap();
        assert_eq!(copied.ranges(), [(start, end)]);
        assert_eq!(copied.compare(vec![(start, end)]).unwrap().written, []);
        let from = (start - memory.as_ptr() as u64) as usize;
        (memory[from + PAGE], memory[from + 2 * PAGE + 5]) = (8, 8);
        let found = copied.compare(vec![(start, end)]).unwrap();
        assert_eq!(found.own, [(start, end)]);
        assert_eq!(found.written, [(start + PAGE as u64, start + 3 * PAGE as u64)]);
    }

    #[test]
    fn zeros_are_not_sent() {
        let mut bytes = vec![0; 3 * PAGE];
        bytes[2 * PAGE] = 3;
        let copied = Copied { pid: 0, runs: vec![(0x1000, 0x3000)], bytes, place: Mutex::default() };
        let mut sent = Vec::new();
        let each = copied.each(
            &[Area::anonymous(0x1000, 0x4000, 3)],
            || 2 * PAGE as u64,
            |runs, bytes| {
                sent.push((runs.to_vec(), bytes[0]));
                Ok::<_, ()>(())
            },
        );
        assert_eq!((each, sent), (Ok(()), vec![(vec![(0x3000, 0x1000)], 3)]));
    }
}
