//! Bodies of the frames that carry a process: parts of its image, and pages.

/// Bytes of pages that may be under way and not in place yet: what a mover's memory is bounded by, whatever the size of the process.
pub const WINDOW_BYTES: u64 = 32 << 20;
/// Bytes of an image in one frame.
pub const PART_BYTES: usize = 256 << 10;
/// Page size.
pub const PAGE_BYTES: usize = 4096;

/// Header of an image's part.
pub fn part_head(pid: i32) -> [u8; 4] {
    pid.to_le_bytes()
}

/// The process, and the bytes of its image.
pub fn part(body: &[u8]) -> Option<(i32, &[u8])> {
    let (pid, bytes) = body.split_first_chunk()?;
    Some((i32::from_le_bytes(*pid), bytes))
}

/// Header of pages that lie in these runs: address and bytes of each.
pub fn pages_head(pid: i32, runs: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + 16 * runs.len());
    out.extend(pid.to_le_bytes());
    out.extend((runs.len() as u32).to_le_bytes());
    for (at, bytes) in runs {
        out.extend(at.to_le_bytes());
        out.extend(bytes.to_le_bytes());
    }
    out
}

/// Whole pages of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages<'a> {
    /// It.
    pub pid: i32,
    /// Where they lie: address and bytes.
    pub runs: Vec<(u64, u64)>,
    /// All of them, one run after the other.
    pub bytes: &'a [u8],
}

/// Reads a frame of pages.
pub fn pages(body: &[u8]) -> Option<Pages<'_>> {
    let (pid, rest) = body.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    let (head, bytes) = rest.split_at_checked(count.checked_mul(16)?)?;
    let mut runs = Vec::with_capacity(count);
    let mut sum = 0u64;
    for run in head.chunks_exact(16) {
        let (at, length) = run.split_first_chunk()?;
        let run = (u64::from_le_bytes(*at), u64::from_le_bytes(*length.first_chunk()?));
        let whole = run.0.is_multiple_of(PAGE_BYTES as u64) && run.1.is_multiple_of(PAGE_BYTES as u64) && run.1 > 0;
        sum = sum.checked_add(run.1).filter(|sum| whole && *sum <= bytes.len() as u64)?;
        runs.push(run);
    }
    (sum == bytes.len() as u64 && sum > 0).then_some(Pages { pid: i32::from_le_bytes(*pid), runs, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_nonsense() {
        let runs = vec![(0x3000, 8192), (0x9000, 4096)];
        let body = [&pages_head(7, &runs)[..], &[1; 12288]].concat();
        assert_eq!(pages(&body), Some(Pages { pid: 7, runs: runs.clone(), bytes: &[1; 12288] }));
        for cut in [0, 3, 7, 20, 40, body.len() - 1] {
            assert_eq!(pages(&body[..cut]), None);
        }
        for odd in [(0x3001, 4096), (0x3000, 4095), (0x3000, 0), (0x3000, u64::MAX - 4095)] {
            assert_eq!(pages(&[&pages_head(7, &[odd])[..], &[1; 4096]].concat()), None);
        }
        let many = [&7i32.to_le_bytes()[..], &u32::MAX.to_le_bytes(), &[0; 64]].concat();
        assert_eq!(pages(&many), None);
        assert_eq!(part(&[&part_head(-1)[..], b"x"].concat()), Some((-1, &b"x"[..])));
        assert_eq!(part(&[0; 3]), None);
    }
}
