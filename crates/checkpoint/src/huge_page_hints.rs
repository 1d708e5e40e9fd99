//! Huge pages at the destination. Filling fresh small pages takes as long as the rest of their
//! transfer, so full memory gets huge pages before it is written. The kernel makes them when the
//! first page is written (MADV_COLLAPSE), which leaves no mark on an area, unlike MADV_HUGEPAGE.

use crate::error::BodyError;
use crate::huge::HUGE;
use crate::pages::Run;
use image::{Area, Content};
use migration_plan::{Range, Ranges};
use os::inject::Memory;
use os::pages::{Collapsed, intersect};
use os::pidfd::PidFd;
use std::time::{Duration, Instant};

/// The least size of memory for which huge pages pay.
const BYTES_MIN: u64 = 32 << 20;
/// Memory that is turned into huge pages in one call. The first such call makes all processors
/// return their cached free pages.
const CHUNK_BYTES: u64 = 64 << 20;
/// The longest time for a chunk. If it takes longer, small pages would have been ready sooner.
const CHUNK_WITHIN: Duration = Duration::from_millis(60);

/// Finds full memory among these runs, which are about to be sent of process `pid` for the first
/// time, and that can have huge pages.
pub fn huge_page_ranges(pid: i32, runs: &[Run], areas: &[Area]) -> Result<Vec<Run>, BodyError> {
    let ranges: Vec<Range> = runs.iter().map(|(at, bytes)| (*at, at + bytes)).collect();
    let fitting: Vec<Range> = areas.iter().filter(|a| can_be_huge(a)).map(|a| (a.start, a.end)).collect();
    let mut found = Vec::new();
    for range in intersect(&ranges, &fitting).into_iter().filter_map(whole) {
        // Zeros are not sent, and take no memory at the destination.
        let bytes = range.1 - range.0;
        if bytes >= BYTES_MIN && os::sample::filled_bytes(pid, &[range])? >= bytes / 10 * 9 {
            found.push((range.0, bytes));
        }
    }
    Ok(found)
}

/// Tells whether an area may get huge pages: it neither has them by itself nor must not have them.
fn can_be_huge(area: &Area) -> bool {
    let says = |advice: i32| area.advice.contains(&(advice as u8));
    let is_plain = area.content == Content::Anonymous && !area.shared && !area.droppable;
    let is_free = !area.locked && !area.grows_down && area.protection & libc::PROT_WRITE as u8 != 0;
    is_plain && is_free && !says(libc::MADV_HUGEPAGE) && !says(libc::MADV_NOHUGEPAGE)
}

/// Gives the huge pages that lie completely in the range.
fn whole(range: Range) -> Option<Range> {
    let (start, end) = range;
    let whole = (start.next_multiple_of(HUGE), end / HUGE * HUGE);
    (whole.0 < whole.1).then_some(whole)
}

/// Ranges that will be full and have no huge pages yet.
#[derive(Debug, Default)]
pub struct HugePageHints(Ranges);

impl HugePageHints {
    /// Notes runs that will be full. Ignored where the machine's owner wants no huge pages, or
    /// where all memory has them anyway.
    pub fn expect(&mut self, runs: &[Run]) {
        if !os::pages::huge_on_request() {
            return;
        }
        let ranges = runs.iter().filter_map(|(at, bytes)| whole((*at, at.checked_add(*bytes)?)));
        ranges.for_each(|range| self.0.insert(range));
    }

    /// Makes huge pages of the ranges that begin with these pages, which have just been written.
    /// After a failure or a slow call, makes none any more.
    pub fn follow(&mut self, memory: &Memory, runs: &[Run]) {
        while !self.0.is_empty()
            && let Some((at, end)) =
                runs.iter().find_map(|(at, bytes)| self.0.within((*at, at + bytes)).first().copied())
        {
            let end = self.0.next_from(at).map_or(end, |range| range.1);
            let chunk = (at / HUGE * HUGE, (at / HUGE * HUGE + CHUNK_BYTES).min(end));
            self.0.remove(chunk);
            let begun = Instant::now();
            match make(memory, chunk) {
                Ok(Collapsed::All) if begun.elapsed() < CHUNK_WITHIN => {}
                made => {
                    tracing::debug!("no huge pages at {:#x}: {made:?} after {:?}", chunk.0, begun.elapsed());
                    self.0 = Ranges::default();
                }
            }
        }
    }
}

fn make(memory: &Memory, range: Range) -> os::Result<Collapsed> {
    let (start, end) = range;
    // MADV_COLLAPSE needs a page table. Reading maps the page without writing it.
    let firsts: Vec<Run> = (start..end).step_by(HUGE as usize).map(|at| (at, 1)).collect();
    memory.read_runs(&firsts, &mut vec![0; firsts.len()])?;
    os::pages::collapse(&PidFd::open(memory.pid())?, start, end - start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: u8 = (libc::PROT_READ | libc::PROT_WRITE) as u8;
    const MIB: u64 = 1 << 20;

    fn mapped(bytes: u64) -> u64 {
        let (rw, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping that no other code knows.
        unsafe { libc::mmap(std::ptr::null_mut(), (bytes + HUGE) as usize, rw, flags, -1, 0) as u64 }
            .next_multiple_of(HUGE)
    }

    fn fill(at: u64, bytes: u64, byte: u8) {
        // SAFETY: writes inside that mapping.
        unsafe { std::ptr::write_bytes(at as *mut u8, byte, bytes as usize) };
    }

    #[test]
    fn only_what_is_full_and_may_be_of_huge_pages() {
        let me = std::process::id() as i32;
        let at = mapped(80 * MIB);
        fill(at, 80 * MIB, 1);
        let area = Area::anonymous(at, at + 80 * MIB, RW);
        let run = (at + 4096, 40 * MIB);
        assert_eq!(huge_page_ranges(me, &[run], &[area]).unwrap(), [(at + HUGE, 38 * MIB)]);
        assert_eq!(huge_page_ranges(me, &[(at, 16 * MIB)], &[area]).unwrap(), [], "little");
        let advice = [libc::MADV_NOHUGEPAGE as u8, 0, 0, 0];
        for other in [
            Area { advice, ..area },
            Area { locked: true, ..area },
            Area { protection: libc::PROT_READ as u8, ..area },
            Area { shared: true, ..area },
            Area { content: Content::File { file: 0, offset: 0 }, ..area },
        ] {
            assert_eq!(huge_page_ranges(me, &[run], &[other]).unwrap(), [], "{other:?}");
        }
        fill(at + HUGE, 8 * MIB, 0);
        assert_eq!(huge_page_ranges(me, &[run], &[area]).unwrap(), [], "zeros");
    }

    /// Pages that were written before the hint stay as they are, and memory outside the ranges is
    /// not touched.
    #[test]
    fn nothing_is_lost() {
        let me = Memory::of(std::process::id() as i32).unwrap();
        let at = mapped(12 * MIB);
        fill(at + 3 * MIB, 5 * MIB, 7);
        // Whatever the machine's setting for huge pages.
        let mut dense = HugePageHints(whole((at + MIB, at + 10 * MIB)).into_iter().collect());
        assert_eq!(dense.0.iter().collect::<Vec<_>>(), [(at + 2 * MIB, at + 10 * MIB)]);
        dense.follow(&me, &[(at, MIB)]);
        assert_eq!(dense.0.bytes(), 8 * MIB, "not there yet");
        dense.follow(&me, &[(at + 3 * MIB, 4096)]);
        assert!(dense.0.is_empty());
        let mut bytes = vec![0; 12 << 20];
        me.read(at, &mut bytes).unwrap();
        let wanted = |n: usize| if (3 << 20..8 << 20).contains(&n) { 7 } else { 0 };
        assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == wanted(n)));
    }
}
