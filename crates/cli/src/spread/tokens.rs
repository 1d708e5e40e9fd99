//! The tokens of make's jobserver, one for each job beside the first: bytes in a FIFO. They follow
//! the processors that are free: more are written when hosts come, and taken out when hosts go.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The byte that make writes.
const TOKEN: u8 = b'+';
/// Most tokens: fewer than a pipe holds.
const TOKENS_MAX: u32 = 4096;

/// The FIFO, and how many tokens are in it or with jobs.
pub(super) struct Tokens {
    fifo: File,
    path: PathBuf,
    there: u32,
}

impl Tokens {
    /// Makes the FIFO, without tokens.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(super) fn make(path: PathBuf) -> io::Result<Tokens> {
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let fifo = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(&path)?;
        Ok(Tokens { fifo, path, there: 0 })
    }

    /// Gives the path of the FIFO.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Has so many jobs run at once. Tokens that jobs hold are taken when they come back: then this
    /// has to be called again.
    pub(super) fn follow(&mut self, jobs: u32) {
        let wanted = jobs.saturating_sub(1).min(TOKENS_MAX);
        while self.there < wanted && self.fifo.write(&[TOKEN]).is_ok_and(|bytes| bytes == 1) {
            self.there += 1;
        }
        while self.there > wanted && self.fifo.read(&mut [0]).is_ok_and(|bytes| bytes == 1) {
            self.there -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut tokens = Tokens::make(dir.path().join("tokens")).unwrap();
        let mut make = OpenOptions::new().read(true).write(true).open(tokens.path()).unwrap();
        tokens.follow(4);
        let mut taken = [0; 2];
        make.read_exact(&mut taken).unwrap();
        assert_eq!(taken, [TOKEN; 2]);
        tokens.follow(1);
        assert_eq!(tokens.there, 2, "two are with jobs");
        make.write_all(&taken).unwrap();
        tokens.follow(1);
        assert_eq!(tokens.there, 0);
        tokens.follow(3);
        make.read_exact(&mut taken).unwrap();
    }
}
