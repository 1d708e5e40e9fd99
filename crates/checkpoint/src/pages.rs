//! The private pages of a stopped process, in order.

use crate::error::BodyError;
use image::{Area, Content};
use os::inject::Memory;
use os::pages::Own;

/// Size of a page, bytes.
pub const PAGE: usize = 4096;

/// A run of pages: address and bytes.
pub type Run = (u64, u64);

/// Lists the runs of private pages in these areas, ascending.
pub fn own_runs(own: &Own, areas: &[Area]) -> Result<Vec<Run>, BodyError> {
    let carried: Vec<(u64, u64)> = areas.iter().filter(|a| !a.shared).map(|a| (a.start, a.end)).collect();
    let runs = own.within(&carried)?;
    Ok(runs.into_iter().map(|(start, end)| (start, end - start)).collect())
}

/// Estimates how many bytes of these areas would be sent of process `pid`: its private pages,
/// without zeros that need not be sent.
pub fn filled_bytes(pid: i32, own: &Own, areas: &[Area]) -> Result<u64, BodyError> {
    let copied: Vec<Area> = areas.iter().filter(|a| a.content != Content::Anonymous).cloned().collect();
    let anonymous: Vec<Area> = areas.iter().filter(|a| a.content == Content::Anonymous).cloned().collect();
    let anonymous: Vec<(u64, u64)> = own_runs(own, &anonymous)?.iter().map(|(at, bytes)| (*at, at + bytes)).collect();
    let copied: u64 = own_runs(own, &copied)?.iter().map(|(_, bytes)| bytes).sum();
    Ok(copied + os::sample::filled_bytes(pid, &anonymous)?)
}

/// Pages of a process to read and send.
pub struct PagesToSend<'a> {
    /// The pages to send, ascending.
    pub runs: &'a [Run],
    /// The memory of the process.
    pub memory: &'a Memory,
    /// The areas of the process.
    pub areas: &'a [Area],
    /// Whether the destination has none of the pages yet, so that zeros of anonymous memory need
    /// not be sent.
    pub fresh: bool,
    /// Where pages that cannot be read are noted: a running process may have unmapped them. Without
    /// it they are an error.
    pub unreadable: Option<&'a mut Vec<Run>>,
}

/// Gives pages to `each`, with their content, as many at once as `batch_bytes` returns each time.
pub fn each_batch(
    pages: PagesToSend<'_>,
    batch_bytes: impl Fn() -> u64,
    mut each: impl FnMut(&[Run], &[u8]) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let PagesToSend { runs, memory, areas, fresh, mut unreadable } = pages;
    let mut buffer = Vec::new();
    each_part(runs, &batch_bytes, |batch, bytes| {
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        match (memory.read_runs(&batch, &mut buffer[..bytes]), unreadable.as_deref_mut()) {
            (Ok(()), _) => {}
            (Err(_), Some(unreadable)) => {
                unreadable.extend(batch);
                return Ok(());
            }
            (Err(e), None) => return Err(e.into()),
        }
        let (batch, bytes) = if fresh { without_zeros(&batch, areas, &mut buffer) } else { (batch, bytes) };
        if bytes > 0 { in_pieces(&batch, &buffer[..bytes], batch_bytes(), &mut each) } else { Ok(()) }
    })
}

/// Gives pages whose content is known to `each`, as [`each_batch`] does. The destination has had
/// all of them.
pub fn each_of<E>(
    runs: &[Run],
    bytes: &[u8],
    batch_bytes: impl Fn() -> u64,
    mut each: impl FnMut(&[Run], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = bytes;
    each_part(runs, &batch_bytes, |batch, bytes| {
        let (now, later) = rest.split_at(bytes.min(rest.len()));
        rest = later;
        in_pieces(&batch, now, batch_bytes(), &mut each)
    })
}

/// Gives these runs of whole pages to `each`, as many bytes at once as `part_bytes` returns each
/// time, with the number of all bytes.
pub fn each_part<E>(
    runs: &[Run],
    part_bytes: impl Fn() -> u64,
    mut each: impl FnMut(Vec<Run>, usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = runs.iter().copied();
    let mut next = rest.next();
    while next.is_some() {
        let part = take_batch(&mut next, &mut rest, part_bytes().max(PAGE as u64));
        let bytes = part.iter().map(|r| r.1 as usize).sum();
        each(part, bytes)?;
    }
    Ok(())
}

/// Sends pages at once, or in pieces if less than a page is to go at once.
pub fn in_pieces<E>(
    batch: &[Run],
    bytes: &[u8],
    piece_bytes: u64,
    each: &mut impl FnMut(&[Run], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if piece_bytes >= PAGE as u64 {
        return each(batch, bytes);
    }
    let mut rest = bytes;
    let mut next = batch.first().copied();
    let mut runs = batch.iter().copied().skip(1);
    while next.is_some() {
        let piece = take_batch(&mut next, &mut runs, piece_bytes.max(1));
        let (now, later) = rest.split_at(piece.iter().map(|r| r.1 as usize).sum());
        each(&piece, now)?;
        rest = later;
    }
    Ok(())
}

fn take_batch(next: &mut Option<Run>, rest: &mut impl Iterator<Item = Run>, bytes: u64) -> Vec<Run> {
    let (mut batch, mut left) = (Vec::new(), bytes);
    while let Some((at, bytes)) = *next
        && left > 0
    {
        let now = bytes.min(left);
        batch.push((at, now));
        left -= now;
        *next = if now < bytes { Some((at + now, bytes - now)) } else { rest.next() };
    }
    batch
}

/// Removes pages of zeros from the runs and their content from the buffer. In a private copy of a
/// file zeros may differ from the file, so they stay.
pub fn without_zeros(batch: &[Run], areas: &[Area], buffer: &mut [u8]) -> (Vec<Run>, usize) {
    let anonymous = |at: u64| {
        let place = areas.partition_point(|a| a.end <= at);
        areas.get(place).is_some_and(|a| a.start <= at && a.content == Content::Anonymous)
    };
    without_zeros_if(batch, anonymous, buffer)
}

/// Removes pages of zeros from runs whose first address `unmissed` accepts.
pub fn without_zeros_if(batch: &[Run], unmissed: impl Fn(u64) -> bool, buffer: &mut [u8]) -> (Vec<Run>, usize) {
    let (mut kept, mut from, mut to): (Vec<Run>, usize, usize) = (Vec::new(), 0, 0);
    for (start, bytes) in batch {
        let skips = unmissed(*start);
        for at in (*start..start + bytes).step_by(PAGE) {
            if !(skips && is_zero(&buffer[from..from + PAGE])) {
                match kept.last_mut() {
                    Some(last) if last.0 + last.1 == at => last.1 += PAGE as u64,
                    _ => kept.push((at, PAGE as u64)),
                }
                if from != to {
                    buffer.copy_within(from..from + PAGE, to);
                }
                to += PAGE;
            }
            from += PAGE;
        }
    }
    (kept, to)
}

fn is_zero(page: &[u8]) -> bool {
    page.chunks_exact(8).all(|word| word == [0; 8])
}

/// Checks that all of these runs lie in private areas of the image. The runs come from another
/// machine.
pub fn lie_within(runs: &[Run], areas: &[Area]) -> bool {
    runs.iter().all(|(start, bytes)| {
        let (mut at, end) = (*start, start.saturating_add(*bytes));
        let mut place = areas.partition_point(|a| a.end <= at);
        while at < end {
            match areas.get(place) {
                Some(a) if a.start <= at && !a.shared => at = a.end,
                _ => return false,
            }
            place += 1;
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64, content: Content) -> Area {
        Area { content, ..Area::anonymous(start, end, 3) }
    }

    #[test]
    fn zeros_stay_where_nobody_misses_them() {
        let areas =
            [area(0x1000, 0x5000, Content::Anonymous), area(0x5000, 0x7000, Content::File { file: 0, offset: 0 })];
        let mut buffer = vec![0u8; 6 * PAGE];
        (buffer[PAGE], buffer[3 * PAGE]) = (1, 2);
        let (kept, bytes) = without_zeros(&[(0x1000, 4 * 4096), (0x5000, 2 * 4096)], &areas, &mut buffer);
        assert_eq!(kept, [(0x2000, 4096), (0x4000, 3 * 4096)]);
        assert_eq!((bytes, buffer[0], buffer[PAGE], buffer[2 * PAGE]), (4 * PAGE, 1, 2, 0));
    }

    #[test]
    fn less_than_a_page_goes_in_pieces() {
        let bytes: Vec<u8> = (0..2 * PAGE).map(|n| (n / 1024) as u8).collect();
        let mut seen = Vec::new();
        let mut each = |runs: &[Run], bytes: &[u8]| {
            seen.push((runs.to_vec(), bytes[0], bytes.len()));
            Ok::<_, BodyError>(())
        };
        in_pieces(&[(0x1000, 4096), (0x9000, 4096)], &bytes, 3072, &mut each).unwrap();
        let wanted = [
            (vec![(0x1000, 3072)], 0, 3072),
            (vec![(0x1c00, 1024), (0x9000, 2048)], 3, 3072),
            (vec![(0x9800, 2048)], 6, 2048),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn batches_are_bounded() {
        const BATCH_BYTES: u64 = 512 << 10;
        let runs = [(0, BATCH_BYTES + 4096), (0x10_0000_0000, 4096)];
        let (mut rest, mut batches) = (runs.iter().copied(), Vec::new());
        let mut next = rest.next();
        while next.is_some() {
            batches.push(take_batch(&mut next, &mut rest, BATCH_BYTES));
        }
        assert_eq!(batches, [vec![(0, BATCH_BYTES)], vec![(BATCH_BYTES, 4096), (0x10_0000_0000, 4096)]]);
    }

    #[test]
    fn pages_from_elsewhere_lie_in_areas() {
        let areas = [area(0x1000, 0x3000, Content::Anonymous), area(0x3000, 0x4000, Content::Anonymous)];
        assert!(lie_within(&[(0x1000, 0x3000)], &areas));
        assert!(!lie_within(&[(0x1000, 0x4000)], &areas));
        assert!(!lie_within(&[(0x0, 0x2000)], &areas));
        assert!(!lie_within(&[(0x1000, u64::MAX)], &areas));
        let shared = [Area { shared: true, ..areas[0] }];
        assert!(!lie_within(&[(0x1000, 0x1000)], &shared));
    }
}
