//! The pages of a stopped process that are its own, in order.

use crate::error::BodyError;
use image::Image;
use os::inject::Memory;
use os::pages::Own;

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// Gives every run of own pages of the image's areas to `each`: address and bytes, at most 256 KiB. The bytes sent in all are the caller's to count.
pub fn each_page_run(
    own: &Own,
    memory: &Memory,
    image: &Image,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let mut buffer = vec![0; CHUNK_BYTES as usize];
    for area in image.areas.iter().filter(|a| !a.shared) {
        for (start, end) in own.between(area.start, area.end)? {
            let mut at = start;
            while at < end {
                let bytes = (end - at).min(CHUNK_BYTES) as usize;
                memory.read(at, &mut buffer[..bytes])?;
                each(at, &buffer[..bytes])?;
                at += bytes as u64;
            }
        }
    }
    Ok(())
}
