//! Bodies of the frames that carry a process: parts of its image, and pages.

/// An image of so many bytes goes in one message with what follows it.
pub const IMAGE_AT_ONCE_BYTES: usize = 256 << 10;

/// Bytes of pages that may be under way and not in place yet: what a mover's memory is bounded by,
/// whatever the size of the process.
pub const WINDOW_BYTES: u64 = 32 << 20;
/// Bytes of an image in one frame.
pub const PART_BYTES: usize = 256 << 10;
/// The size of a page.
pub const PAGE_BYTES: usize = 4096;
/// A page may go in pieces that are multiples of this.
pub const PIECE_BYTES: usize = 1024;

/// Where pages lie: address and bytes.
pub type Run = (u64, u64);

/// Makes the frames that carry an image: header and bytes of each.
pub fn parts(pid: i32, image: &[u8]) -> impl Iterator<Item = ([u8; 5], &[u8])> {
    let [a, b, c, d] = pid.to_le_bytes();
    let ends = image.len().div_ceil(PART_BYTES);
    image.chunks(PART_BYTES).zip(1..).map(move |(bytes, n)| ([a, b, c, d, u8::from(n == ends)], bytes))
}

/// Reads the process, whether this is the last part of its image, and the bytes of that.
pub fn part(body: &[u8]) -> Option<(i32, bool, &[u8])> {
    let (pid, rest) = body.split_first_chunk()?;
    let (last, bytes) = rest.split_first()?;
    Some((i32::from_le_bytes(*pid), *last != 0, bytes))
}

/// Gives the process that a frame is about, of whatever kind.
pub fn process(body: &[u8]) -> Option<i32> {
    body.first_chunk().map(|pid| i32::from_le_bytes(*pid))
}

/// Header of pages that lie in these runs: address and bytes of each.
pub fn pages_head(pid: i32, runs: &[Run]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + 16 * runs.len());
    out.extend(pid.to_le_bytes());
    out.extend((runs.len() as u32).to_le_bytes());
    for (at, bytes) in runs {
        out.extend(at.to_le_bytes());
        out.extend(bytes.to_le_bytes());
    }
    out
}

/// Runs that one frame of [`crate::Kind::Later`] or [`crate::Kind::Vacant`] holds.
pub const LATER_RUNS: usize = 16 << 10;

/// Pages that one message says are there from an earlier stay.
pub const STOCKED_PAGES: usize = 8 << 10;

/// Header of pages of a process that goes on at the other end already: those that are sent, and
/// those that are zero.
pub fn pushed_head(pid: i32, runs: &[Run], zeros: &[Run]) -> Vec<u8> {
    let mut out = Vec::with_capacity(12 + 16 * (runs.len() + zeros.len()));
    out.extend(pid.to_le_bytes());
    out.extend((zeros.len() as u32).to_le_bytes());
    for (at, bytes) in zeros {
        out.extend(at.to_le_bytes());
        out.extend(bytes.to_le_bytes());
    }
    out.extend(&pages_head(pid, runs)[4..]);
    out
}

/// Pages of a process that goes on here already, and runs of pages that are zero.
pub fn pushed(body: &[u8]) -> Option<(Pages<'_>, Vec<Run>)> {
    let (pid, rest) = body.split_first_chunk()?;
    let (zeros, rest) = runs(rest)?;
    let (sent, bytes) = runs(rest)?;
    let whole = sum(&sent)? == bytes.len() as u64;
    sum(&zeros)?;
    whole.then_some((Pages { pid: i32::from_le_bytes(*pid), runs: sent, bytes }, zeros))
}

/// Header of pages that may be the same when their process stops. `number`: which
/// [`crate::message::onward::Order::Advance`] wanted them.
pub fn advance_head(pid: i32, number: u32, runs: &[Run]) -> Vec<u8> {
    let mut out = Vec::with_capacity(12 + 16 * runs.len());
    out.extend(pid.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(&pages_head(pid, runs)[4..]);
    out
}

/// Such pages, and their number.
pub fn advance(body: &[u8]) -> Option<(u32, Pages<'_>)> {
    let (pid, rest) = body.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (runs, bytes) = runs(rest)?;
    let whole = sum(&runs)? == bytes.len() as u64;
    whole.then_some((u32::from_le_bytes(*number), Pages { pid: i32::from_le_bytes(*pid), runs, bytes }))
}

/// Runs of pages of a process: that follow, or that it never had (their header is [`pages_head`]).
pub fn later(body: &[u8]) -> Option<(i32, Vec<Run>)> {
    let (pid, rest) = body.split_first_chunk()?;
    let (runs, rest) = runs(rest)?;
    sum(&runs)?;
    rest.is_empty().then_some((i32::from_le_bytes(*pid), runs))
}

/// Reads a count, and as many runs of whole pages.
fn runs(body: &[u8]) -> Option<(Vec<Run>, &[u8])> {
    runs_of(body, PAGE_BYTES as u64)
}

/// Reads a count, and as many runs of whole multiples of `unit_bytes`.
fn runs_of(body: &[u8], unit_bytes: u64) -> Option<(Vec<Run>, &[u8])> {
    let (count, rest) = body.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    let (head, rest) = rest.split_at_checked(count.checked_mul(16)?)?;
    let mut runs = Vec::with_capacity(count);
    for run in head.chunks_exact(16) {
        let (at, length) = run.split_first_chunk()?;
        let run = (u64::from_le_bytes(*at), u64::from_le_bytes(*length.first_chunk()?));
        let whole = run.0.is_multiple_of(unit_bytes) && run.1.is_multiple_of(unit_bytes) && run.1 > 0;
        runs.push(Some(run).filter(|run| whole && run.0.checked_add(run.1).is_some())?);
    }
    Some((runs, rest))
}

fn sum(runs: &[Run]) -> Option<u64> {
    runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.1))
}

/// Pages of a process, or pieces of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages<'a> {
    /// PID of the process, at home.
    pub pid: i32,
    /// Where they lie: address and bytes.
    pub runs: Vec<Run>,
    /// All of them, one run after the other.
    pub bytes: &'a [u8],
}

/// Reads a frame of pages.
pub fn pages(body: &[u8]) -> Option<Pages<'_>> {
    let (pid, rest) = body.split_first_chunk()?;
    let (runs, bytes) = runs_of(rest, PIECE_BYTES as u64)?;
    let sum = sum(&runs)?;
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
        for odd in [(0x3001, 4096), (0x3200, 4096), (0x3000, 4095), (0x3000, 0), (0x3000, u64::MAX - 4095)] {
            assert_eq!(pages(&[&pages_head(7, &[odd])[..], &[1; 4096]].concat()), None);
        }
        let piece = [&pages_head(7, &[(0x3400, 1024)])[..], &[1; 1024]].concat();
        assert_eq!(pages(&piece).map(|pages| pages.runs), Some(vec![(0x3400, 1024)]));
        assert_eq!(pushed(&[&pushed_head(7, &[(0x3400, 1024)], &[])[..], &[1; 1024]].concat()), None);
        let many = [&7i32.to_le_bytes()[..], &u32::MAX.to_le_bytes(), &[0; 64]].concat();
        assert_eq!(pages(&many), None);
        assert_eq!(later(&pages_head(7, &runs)), Some((7, runs.clone())));
        assert_eq!(later(&body), None);
        let zeros = vec![(0x20000, 4096)];
        let body = [&pushed_head(7, &runs, &zeros)[..], &[1; 12288]].concat();
        assert_eq!(pushed(&body), Some((Pages { pid: 7, runs: runs.clone(), bytes: &[1; 12288] }, zeros.clone())));
        for cut in [0, 7, 20, 40, body.len() - 1] {
            assert_eq!(pushed(&body[..cut]), None);
        }
        let body = [&advance_head(7, 9, &runs)[..], &[1; 12288]].concat();
        assert_eq!(advance(&body), Some((9, Pages { pid: 7, runs: runs.clone(), bytes: &[1; 12288] })));
        for cut in [0, 7, 11, 20, 44, body.len() - 1] {
            assert_eq!(advance(&body[..cut]), None);
        }
        let nothing = Pages { pid: 7, runs: vec![], bytes: &[] };
        assert_eq!(pushed(&pushed_head(7, &[], &zeros)), Some((nothing, zeros)));
        assert_eq!(part(&[0; 4]), None);
        assert_eq!((process(&[0; 3]), process(&[7, 0, 0, 0])), (None, Some(7)));
    }

    #[test]
    fn the_last_part_of_an_image_says_so() {
        let image = vec![1; PART_BYTES + 1];
        let frames: Vec<Vec<u8>> = parts(-1, &image).map(|(head, bytes)| [&head, bytes].concat()).collect();
        let read: Vec<_> = frames.iter().map(|f| part(f).unwrap()).collect();
        assert_eq!(read, [(-1, false, &image[1..]), (-1, true, &image[..1])]);
        assert_eq!(parts(-1, &image[1..]).count(), 1);
    }
}
