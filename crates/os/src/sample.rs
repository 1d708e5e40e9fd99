//! How much of a process' memory holds anything but zeros: by a sample of its pages.

use crate::Result;
use crate::inject::Memory;

const PAGE: u64 = 4096;
/// Pages that are looked at, at most: of a share of a half that is right to 2%, and they are read
/// in half a millisecond.
const LOOKED_AT_MAX: u64 = 1024;

/// About how many bytes of these ranges (start, end) do; what cannot be read does.
pub fn filled_bytes(pid: i32, ranges: &[(u64, u64)]) -> Result<u64> {
    let pages: u64 = ranges.iter().map(|(start, end)| (end - start) / PAGE).sum();
    let looked_at = evenly(ranges, pages.div_ceil(LOOKED_AT_MAX).max(1));
    if looked_at.is_empty() {
        return Ok(0);
    }
    let memory = Memory::of(pid)?;
    let mut buffer = vec![0; PAGE as usize];
    let mut filled = |at: &&u64| memory.read(**at, &mut buffer).is_err() || buffer.iter().any(|byte| *byte != 0);
    let count = looked_at.iter().filter(&mut filled).count();
    Ok((pages as f64 * count as f64 / looked_at.len() as f64) as u64 * PAGE)
}

/// Every so manieth page of these.
fn evenly(ranges: &[(u64, u64)], stride: u64) -> Vec<u64> {
    let (mut found, mut skip) = (Vec::new(), stride / 2);
    for (start, end) in ranges {
        let pages = (end - start) / PAGE;
        found.extend((skip..pages).step_by(stride as usize).map(|page| start + page * PAGE));
        // Of the pages of this range, and those before that were skipped, what is left over.
        skip = if skip >= pages { skip - pages } else { (stride - (pages - skip) % stride) % stride };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_looked_at_evenly() {
        let pages = |ranges: &[(u64, u64)], stride| {
            let ranges: Vec<_> = ranges.iter().map(|(a, b)| (a * PAGE, b * PAGE)).collect();
            evenly(&ranges, stride).into_iter().map(|at| at / PAGE).collect::<Vec<u64>>()
        };
        assert_eq!(pages(&[(0, 3), (10, 12)], 1), [0, 1, 2, 10, 11]);
        assert_eq!(pages(&[(0, 10)], 4), [2, 6]);
        // As if they lay side by side: places 2, 6, 10 and 14.
        assert_eq!(pages(&[(0, 1), (10, 15), (20, 25), (40, 46)], 4), [11, 20, 24, 43]);
        assert_eq!(pages(&[], 4), [0; 0]);
    }

    #[test]
    fn zeros_do_not_count() {
        const MIB: usize = 1 << 20;
        let memory = vec![1u8; 4 * MIB];
        let mut zeros = vec![1u8; 12 * MIB];
        zeros.fill(0);
        let range = |bytes: &[u8]| {
            let start = (bytes.as_ptr() as u64).next_multiple_of(PAGE);
            (start, start + bytes.len() as u64 - PAGE)
        };
        let found = filled_bytes(std::process::id() as i32, &[range(&memory), range(&zeros)]).unwrap();
        assert!((3 * MIB as u64..5 * MIB as u64).contains(&found), "{found}");
    }
}
