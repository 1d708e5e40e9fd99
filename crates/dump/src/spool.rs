//! Memory between a dump and its reader, so that a slow reader does not keep the process standing
//! still.

use std::io::{self, Write};

/// A writer that takes so many bytes at once. Further bytes wait for the reader.
#[derive(Debug)]
pub struct Spool<W: Write> {
    to: W,
    held: Vec<u8>,
    bytes_max: usize,
}

impl<W: Write> Spool<W> {
    /// Makes a spool of at most so many bytes.
    pub fn new(to: W, bytes_max: usize) -> Spool<W> {
        Spool { to, held: Vec::new(), bytes_max }
    }

    /// Writes what is held.
    pub fn finish(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        // From now on nothing is held.
        self.bytes_max = 0;
        self.to.write_all(&held)?;
        self.to.flush()
    }
}

impl<W: Write> Write for Spool<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.held.len() + bytes.len() <= self.bytes_max {
            self.held.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        if !self.held.is_empty() {
            self.finish()?;
        }
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives the bytes that a dump may hold: a quarter of the memory that programs could still get.
pub fn bytes_max() -> usize {
    const SHARE: usize = 4;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or_default();
    kib.saturating_mul(1024) / SHARE
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    #[test]
    fn bytes_keep_their_order() {
        for bytes_max in [0, 3, 4, 100] {
            let mut out = Vec::new();
            let mut spool = Spool::new(&mut out, bytes_max);
            for part in [&b"ab"[..], b"cd", b"efghij", b"k"] {
                spool.write_all(part).unwrap();
            }
            spool.finish().unwrap();
            assert_eq!(out, b"abcdefghijk", "{bytes_max}");
        }
    }
}
