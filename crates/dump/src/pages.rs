//! The pages of a stopped process, on their way into a dump.

use crate::error::DumpFailed;
use checkpoint::{BodyError, PagesToSend, Run};
use image::Image;
use image::dump::{DumpError, DumpWriter};
use os::inject::Memory;
use os::pages::Own;
use std::io::Write;

const PAGE: usize = 4096;
/// Pages that are read at once, bytes.
const BATCH_BYTES: u64 = 512 << 10;

/// Writes the private pages of process `pid`, and the content of its memories. Pages of zeros are
/// left out where the process has zeros anyway, and named elsewhere. `whole`: ranges whose files do
/// not go by name.
pub fn write<W: Write>(
    pid: i32,
    image: &Image,
    whole: &[(u64, u64)],
    to: &mut DumpWriter<W>,
) -> Result<(), DumpFailed> {
    let memory = Memory::of(pid)?;
    let mut failed = None;
    let mut keep = |written: Result<(), DumpError>| {
        written.map_err(|e| {
            let words = e.to_string();
            failed = Some(e);
            BodyError::NotMigratable(words)
        })
    };
    let mut done = || {
        let own: Vec<Run> = checkpoint::own_runs(&Own::of(pid)?, &image.areas)?;
        let own = outside(&own, whole);
        let pages = |runs| PagesToSend { runs, memory: &memory, areas: &image.areas, fresh: true, unreadable: None };
        checkpoint::each_batch(pages(&own), || BATCH_BYTES, |runs, bytes| keep(put(to, runs, bytes)))?;
        // Where a file ends, its last area may go on; pages there cannot be read.
        let mut unreadable = Vec::new();
        let whole: Vec<Run> = whole.iter().map(|(start, end)| (*start, end - start)).collect();
        let pages = PagesToSend { unreadable: Some(&mut unreadable), ..pages(&whole) };
        checkpoint::each_batch(pages, || PAGE as u64, |runs, bytes| keep(put(to, runs, bytes)))?;
        checkpoint::each_content(pid, image, &[], || BATCH_BYTES, |runs, bytes| keep(to.pages(runs, bytes)))
    };
    match (done(), failed) {
        (_, Some(e)) => Err(e.into()),
        (done, None) => Ok(done?),
    }
}

/// Leaves out runs that begin in these ranges, which no run leaves.
fn outside(runs: &[Run], ranges: &[(u64, u64)]) -> Vec<Run> {
    let mut kept = Vec::new();
    for (at, bytes) in runs.iter().copied() {
        let (mut from, end) = (at, at + bytes);
        for (start, stop) in ranges.iter().filter(|(start, stop)| *start < end && at < *stop) {
            if from < *start {
                kept.push((from, start - from));
            }
            from = from.max(*stop);
        }
        if from < end {
            kept.push((from, end - from));
        }
    }
    kept
}

/// Writes pages; those of zeros without content.
fn put<W: Write>(to: &mut DumpWriter<W>, runs: &[Run], bytes: &[u8]) -> Result<(), DumpError> {
    let pages = runs.iter().flat_map(|(at, bytes)| (*at..at + bytes).step_by(PAGE));
    let (mut filled, mut zeros, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (at, page) in pages.zip(bytes.chunks_exact(PAGE)) {
        if page.iter().all(|byte| *byte == 0) {
            append(&mut zeros, at);
        } else {
            append(&mut filled, at);
            kept.extend_from_slice(page);
        }
    }
    to.zeros(&zeros)?;
    match zeros.is_empty() {
        true => to.pages(runs, bytes),
        false => to.pages(&filled, &kept),
    }
}

fn append(runs: &mut Vec<Run>, at: u64) {
    match runs.last_mut() {
        Some(last) if last.0 + last.1 == at => last.1 += PAGE as u64,
        _ => runs.push((at, PAGE as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_left_out() {
        let ranges = [(0x2000, 0x3000), (0x5000, 0x8000)];
        assert_eq!(outside(&[(0x1000, 0x5000)], &ranges), [(0x1000, 0x1000), (0x3000, 0x2000)]);
        assert_eq!(outside(&[(0x2000, 0x1000), (0x8000, 0x1000)], &ranges), [(0x8000, 0x1000)]);
    }
}
