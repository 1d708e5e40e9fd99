//! Bodies of the frames that carry a process: parts of its image, and pages.

/// Bytes of pages in one frame: a transfer's unit, small enough that other frames get their turn.
pub const PAGES_BYTES: usize = 256 << 10;
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

/// Header of pages that lie at `address`.
pub fn pages_head(pid: i32, address: u64) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&pid.to_le_bytes());
    out[8..].copy_from_slice(&address.to_le_bytes());
    out
}

/// The process, the address, and whole pages.
pub fn pages(body: &[u8]) -> Option<(i32, u64, &[u8])> {
    let (pid, rest) = body.split_first_chunk()?;
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let (address, bytes) = rest.split_first_chunk()?;
    let address = u64::from_le_bytes(*address);
    let whole =
        address.is_multiple_of(PAGE_BYTES as u64) && bytes.len().is_multiple_of(PAGE_BYTES) && !bytes.is_empty();
    whole.then_some((i32::from_le_bytes(*pid), address, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_nonsense() {
        let body = [&pages_head(7, 0x3000)[..], &[1; 8192]].concat();
        assert_eq!(pages(&body), Some((7, 0x3000, &[1; 8192][..])));
        assert_eq!(pages(&body[..body.len() - 1]), None);
        assert_eq!(pages(&[&pages_head(7, 0x3001)[..], &[1; 4096]].concat()), None);
        assert_eq!(pages(&body[..16]), None);
        assert_eq!(part(&[&part_head(-1)[..], b"x"].concat()), Some((-1, &b"x"[..])));
        assert_eq!(part(&[0; 3]), None);
    }
}
