//! Reading a dump that may be hostile.

use super::frame::{
    DumpError, Frame, HEAD_BYTES, Kind, MAGIC, PAGE, PAGES_BYTES_MAX, RUN_BYTES, RUNS_MAX, Run, Totals, VERSION,
};
use crate::state::Image;
use serde::de::DeserializeOwned;
use std::io::{self, Read};

/// Memory that is set aside before its bytes have come.
const AHEAD_BYTES: usize = 64 << 10;

/// The reading end of a dump.
#[derive(Debug)]
pub struct DumpReader<R: Read> {
    from: R,
    last: Option<Kind>,
    files: usize,
    totals: Totals,
}

impl<R: Read> DumpReader<R> {
    /// Reads the beginning of a dump.
    ///
    /// # Errors
    /// The stream is no dump, or reading failed.
    pub fn begin(mut from: R) -> Result<DumpReader<R>, DumpError> {
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => DumpError::Magic,
            _ => e.into(),
        })?;
        if magic != MAGIC {
            return Err(DumpError::Magic);
        }
        Ok(DumpReader { from, last: None, files: 0, totals: Totals::default() })
    }

    /// Reads the next frame; `None` behind the last one.
    ///
    /// # Errors
    /// The stream is no dump, is cut off, or could not be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DumpError> {
        if self.last == Some(Kind::End) {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        self.fill(&mut head)?;
        let [k0, k1, v0, v1, l0, l1, l2, l3] = head;
        let (number, version) = (u16::from_le_bytes([k0, k1]), u16::from_le_bytes([v0, v1]));
        let kind = Kind::of(number).filter(|_| version == VERSION);
        let kind = kind.ok_or(DumpError::Unknown { kind: number, version })?;
        if !kind.follows(self.last) {
            return Err(DumpError::Turn(kind));
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > kind.bytes_max() {
            return Err(DumpError::Size(kind, length));
        }
        let body = self.body(length)?;
        self.last = Some(kind);
        self.decode(kind, body).map(Some)
    }

    fn decode(&mut self, kind: Kind, mut body: Vec<u8>) -> Result<Frame, DumpError> {
        let broken = || DumpError::Content(kind);
        Ok(match kind {
            Kind::Origin => Frame::Origin(value(&body).ok_or_else(broken)?),
            Kind::Identities => {
                let all: Vec<_> = value(&body).ok_or_else(broken)?;
                self.files = all.len();
                Frame::Identities(all)
            }
            Kind::Image => {
                let image = Image::decode(&body)?;
                if image.files.len() != self.files {
                    return Err(DumpError::Content(Kind::Identities));
                }
                Frame::Image(Box::new(image))
            }
            Kind::Vdso => Frame::Vdso(body),
            Kind::Pages => {
                let (runs, used) = runs(&body).ok_or_else(broken)?;
                body.drain(..used);
                let count = total(&runs).filter(|bytes| *bytes as usize == body.len() && body.len() <= PAGES_BYTES_MAX);
                self.totals.pages = self.totals.pages.saturating_add(count.ok_or_else(broken)? / PAGE);
                Frame::Pages(runs, body)
            }
            Kind::Zeros => {
                let (runs, _) = runs(&body).filter(|(_, used)| *used == body.len()).ok_or_else(broken)?;
                let count = total(&runs).ok_or_else(broken)?;
                self.totals.zeros = self.totals.zeros.saturating_add(count / PAGE);
                Frame::Zeros(runs)
            }
            Kind::End => {
                let totals: Totals = value(&body).ok_or_else(broken)?;
                if totals != self.totals {
                    return Err(DumpError::CutOff);
                }
                Frame::End(totals)
            }
        })
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<(), DumpError> {
        self.from.read_exact(into).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => DumpError::CutOff,
            _ => e.into(),
        })
    }

    /// Reads so many bytes. Memory grows with what has come, not with what was promised.
    fn body(&mut self, length: usize) -> Result<Vec<u8>, DumpError> {
        let mut body = Vec::new();
        while body.len() < length {
            let from = body.len();
            body.resize(length.min(from + AHEAD_BYTES.max(from)), 0);
            self.fill(&mut body[from..])?;
        }
        Ok(body)
    }
}

fn value<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    postcard::take_from_bytes(body).ok().filter(|(_, left)| left.is_empty()).map(|(value, _)| value)
}

/// Decodes runs of whole pages; tells how many bytes they took.
fn runs(body: &[u8]) -> Option<(Vec<Run>, usize)> {
    let (count, rest) = body.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    let encoded = rest.get(..count.checked_mul(RUN_BYTES)?).filter(|_| (1..=RUNS_MAX).contains(&count))?;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let all: Vec<Run> = encoded.chunks_exact(RUN_BYTES).map(|run| (word(&run[..8]), word(&run[8..]))).collect();
    let is_whole =
        |(at, bytes): &Run| at % PAGE == 0 && *bytes > 0 && bytes % PAGE == 0 && at.checked_add(*bytes).is_some();
    all.iter().all(is_whole).then_some((all, 4 + count * RUN_BYTES))
}

fn total(runs: &[Run]) -> Option<u64> {
    runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{DumpWriter, Identity, Origin};
    use crate::fuzz;

    fn dump() -> Vec<u8> {
        fuzz::dump()
    }

    fn all(bytes: &[u8]) -> Result<Vec<Frame>, DumpError> {
        let mut reader = DumpReader::begin(bytes)?;
        let mut frames = Vec::new();
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn round_trip() {
        let frames = all(&dump()).unwrap();
        assert_eq!(frames.len(), 7);
        assert_eq!(frames[2], Frame::Image(Box::new(fuzz::example())));
        assert_eq!(frames[4], Frame::Pages(vec![(0x1000, 4096)], vec![7; 4096]));
        assert_eq!(frames[6], Frame::End(Totals { pages: 1, zeros: 1 }));
    }

    /// The program reads the bytes behind the dump as its standard input.
    #[test]
    fn nothing_behind_the_end_is_read() {
        let bytes = [dump().as_slice(), b"more"].concat();
        let mut rest = bytes.as_slice();
        let mut reader = DumpReader::begin(&mut rest).unwrap();
        while reader.next_frame().unwrap().is_some() {}
        assert_eq!(rest, b"more");
    }

    #[test]
    fn a_dump_that_is_cut_off_says_so_wherever() {
        let whole = dump();
        for length in 0..whole.len() {
            let error = all(&whole[..length]).unwrap_err();
            assert!(matches!(error, DumpError::CutOff) || length < MAGIC.len(), "{length}: {error}");
        }
    }

    #[test]
    fn frames_come_in_their_turn_and_are_bounded() {
        let whole = dump();
        let with = |kind: u16, length: u32| {
            let mut bytes = whole[..MAGIC.len()].to_vec();
            bytes.extend(kind.to_le_bytes());
            bytes.extend(VERSION.to_le_bytes());
            bytes.extend(length.to_le_bytes());
            all(&bytes).unwrap_err()
        };
        assert!(matches!(with(3, 0), DumpError::Turn(Kind::Image)));
        assert!(matches!(with(1, u32::MAX), DumpError::Size(Kind::Origin, _)));
        assert!(matches!(with(8, 0), DumpError::Unknown { kind: 8, version: VERSION }));
        assert!(matches!(all(b"#!/bin/sh\n").unwrap_err(), DumpError::Magic));
    }

    #[test]
    fn large_runs_are_divided() {
        let image = fuzz::example();
        let mut out = Vec::new();
        let mut writer = DumpWriter::begin(&mut out, &Origin::default(), &[Identity::default()], &image, &[]).unwrap();
        let bytes = vec![1; 3 << 20];
        writer.pages(&[(0x1000, 2 << 20), (0x100_0000, 1 << 20)], &bytes).unwrap();
        assert_eq!(writer.end().unwrap().pages, 768);
        let count: usize =
            all(&out).unwrap().iter().map(|f| if let Frame::Pages(_, b) = f { b.len() } else { 0 }).sum();
        assert_eq!(count, 3 << 20);
    }

    proptest::proptest! {
        #[test]
        fn hostile_streams_never_panic(input in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = all(&fuzz::dump_bytes(&input));
        }
    }
}
