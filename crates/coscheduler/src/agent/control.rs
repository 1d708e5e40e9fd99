//! The file that tells the tasks of a job whether to spin and to read ahead.

use std::fs;
use std::io;
use std::path::PathBuf;

use cosched::{ModeName, SpinLimit};

/// The file of a job. When this value is dropped, the file goes, and the tasks neither spin nor
/// read ahead.
#[derive(Debug)]
pub struct Control(PathBuf);

impl Control {
    /// Takes a file of the directory of the agent.
    pub fn new(path: PathBuf) -> Control {
        Control(path)
    }

    /// Has the tasks do what the mode says, from one of their next waits on. The form is that of
    /// `blobs/cosched-hook/src/mode.rs`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, mode: ModeName) -> io::Result<()> {
        let spin_us = if mode.spins() { SpinLimit::DEFAULT_US as u16 } else { 0 };
        let [low, high] = spin_us.to_le_bytes();
        // Tasks never see a part of it.
        let draft = self.0.with_extension("draft");
        fs::write(&draft, [b'T', mode.reads_ahead().into(), low, high])?;
        fs::rename(&draft, &self.0)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
