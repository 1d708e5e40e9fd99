//! Writing a dump.

use super::frame::{DumpError, Identity, Kind, MAGIC, Origin, PAGE, PAGES_BYTES_MAX, RUNS_MAX, Run, Totals, VERSION};
use crate::state::Image;
use serde::Serialize;
use std::io::Write;

/// The writing end of a dump.
#[derive(Debug)]
pub struct DumpWriter<W: Write> {
    to: W,
    totals: Totals,
}

impl<W: Write> DumpWriter<W> {
    /// Begins a dump with all that is no page.
    ///
    /// # Errors
    /// Writing failed, or the process is larger than dumps may be.
    pub fn begin(
        mut to: W,
        origin: &Origin,
        identities: &[Identity],
        image: &Image,
        vdso: &[u8],
    ) -> Result<DumpWriter<W>, DumpError> {
        to.write_all(&MAGIC)?;
        let mut writer = DumpWriter { to, totals: Totals::default() };
        writer.value(Kind::Origin, origin)?;
        writer.value(Kind::Identities, &identities)?;
        writer.frame(Kind::Image, &[&image.encode()?])?;
        writer.frame(Kind::Vdso, &[vdso])?;
        Ok(writer)
    }

    /// Writes pages. `bytes` is the content of all runs, one behind the other, which are whole
    /// pages.
    ///
    /// # Errors
    /// Writing failed.
    pub fn pages(&mut self, runs: &[Run], bytes: &[u8]) -> Result<(), DumpError> {
        let mut rest = bytes;
        for batch in batches(runs, PAGES_BYTES_MAX as u64) {
            let count = batch.iter().map(|run| run.1 as usize).sum::<usize>();
            let Some((now, later)) = rest.split_at_checked(count) else {
                return Err(DumpError::Content(Kind::Pages));
            };
            rest = later;
            self.totals.pages += count as u64 / PAGE;
            self.frame(Kind::Pages, &[&encoded(&batch), now])?;
        }
        Ok(())
    }

    /// Names pages of zeros.
    ///
    /// # Errors
    /// Writing failed.
    pub fn zeros(&mut self, runs: &[Run]) -> Result<(), DumpError> {
        for batch in runs.chunks(RUNS_MAX) {
            self.totals.zeros += batch.iter().map(|run| run.1 / PAGE).sum::<u64>();
            self.frame(Kind::Zeros, &[&encoded(batch)])?;
        }
        Ok(())
    }

    /// Ends the dump. Tells how much it holds.
    ///
    /// # Errors
    /// Writing failed.
    pub fn end(mut self) -> Result<Totals, DumpError> {
        let totals = self.totals;
        self.value(Kind::End, &totals)?;
        self.to.flush()?;
        Ok(totals)
    }

    fn value<T: Serialize>(&mut self, kind: Kind, value: &T) -> Result<(), DumpError> {
        let bytes = postcard::to_stdvec(value).map_err(|_| DumpError::Content(kind))?;
        self.frame(kind, &[&bytes])
    }

    fn frame(&mut self, kind: Kind, parts: &[&[u8]]) -> Result<(), DumpError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > kind.bytes_max() {
            return Err(DumpError::Size(kind, bytes));
        }
        let mut head = (kind as u16).to_le_bytes().to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend((bytes as u32).to_le_bytes());
        self.to.write_all(&head)?;
        for part in parts {
            self.to.write_all(part)?;
        }
        Ok(())
    }
}

fn encoded(runs: &[Run]) -> Vec<u8> {
    let mut out = (runs.len() as u32).to_le_bytes().to_vec();
    for (at, bytes) in runs {
        out.extend(at.to_le_bytes());
        out.extend(bytes.to_le_bytes());
    }
    out
}

/// Divides runs into batches of at most so many bytes each.
fn batches(runs: &[Run], bytes_max: u64) -> Vec<Vec<Run>> {
    let (mut all, mut now, mut left) = (Vec::new(), Vec::new(), bytes_max);
    for (mut at, mut bytes) in runs.iter().copied() {
        while bytes > 0 {
            if left == 0 || now.len() == RUNS_MAX {
                all.push(std::mem::take(&mut now));
                left = bytes_max;
            }
            let part = bytes.min(left);
            now.push((at, part));
            (at, bytes, left) = (at + part, bytes - part, left - part);
        }
    }
    if !now.is_empty() {
        all.push(now);
    }
    all
}
