//! Huge pages for memory that followed by post-copy: it arrived in small pages.

use crate::error::BodyError;
use image::{Area, Content};
use migration_plan::{Range, Ranges};
use os::pages::Own;
use os::pidfd::PidFd;

/// Size of a huge page (x86-64).
pub const HUGE: u64 = 2 << 20;

/// Finds the parts of these ranges that would be huge pages if the process had written them itself:
/// where the process has asked for them (MADV_HUGEPAGE).
pub fn wanted_huge(areas: &[Area], ranges: &Ranges) -> Vec<Range> {
    let asked = |a: &&Area| a.content == Content::Anonymous && a.advice.contains(&(libc::MADV_HUGEPAGE as u8));
    let within = areas.iter().filter(asked).flat_map(|a| ranges.within((a.start, a.end)));
    let whole = within.map(|(start, end)| (start.next_multiple_of(HUGE), end / HUGE * HUGE));
    whole.filter(|(start, end)| start < end).collect()
}

/// Makes huge pages of these ranges, where all pages are present, while the process runs. Where the
/// kernel refuses, memory stays as it is; the kernel may make huge pages by itself later.
pub fn make_huge(pid: i32, wanted: &[Range]) -> Result<(), BodyError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let pidfd = PidFd::open(pid)?;
    for (start, end) in Own::of(pid)?.within(wanted)? {
        for at in (start.next_multiple_of(HUGE)..end / HUGE * HUGE).step_by(HUGE as usize) {
            os::pages::collapse(&pidfd, at, HUGE)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_huge_pages_that_were_asked_for() {
        let advice = [libc::MADV_HUGEPAGE as u8, 0, 0, 0];
        let area = Area { advice, ..Area::anonymous(HUGE + 4096, 5 * HUGE, 3) };
        let all: Ranges = [(0, 9 * HUGE)].into_iter().collect();
        assert_eq!(wanted_huge(&[area], &all), [(2 * HUGE, 5 * HUGE)]);
        assert_eq!(wanted_huge(&[Area { advice: [0; 4], ..area }], &all), []);
        let some: Ranges = [(2 * HUGE, 3 * HUGE - 4096), (3 * HUGE, 4 * HUGE)].into_iter().collect();
        assert_eq!(wanted_huge(&[area], &some), [(3 * HUGE, 4 * HUGE)]);
    }
}
