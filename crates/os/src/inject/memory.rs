//! Memory of a traced process, whatever its protections (/proc/PID/mem: proc_pid_mem(5)).

use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Reads and writes a process' memory; writes also where the process itself may not (as a debugger's breakpoints do).
#[derive(Clone, Debug)]
pub struct Memory {
    file: Arc<File>,
    pid: i32,
}

impl Memory {
    /// Of process `pid`.
    pub fn of(pid: i32) -> Result<Memory> {
        let path = format!("/proc/{pid}/mem");
        let file = File::options().read(true).write(true).open(&path);
        Ok(Memory { file: Arc::new(file.map_err(|e| Error::new(format!("opening {path}"), e))?), pid })
    }

    /// Fills `into` from address `from`.
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<()> {
        let failed = |e| Error::new(format!("reading memory of {} at {from:#x}", self.pid), e);
        self.file.read_exact_at(into, from).map_err(failed)
    }

    /// Copies `bytes` to address `to`.
    pub fn write(&self, to: u64, bytes: &[u8]) -> Result<()> {
        let failed = |e| Error::new(format!("writing memory of {} at {to:#x}", self.pid), e);
        self.file.write_all_at(bytes, to).map_err(failed)
    }

    /// A little-endian word.
    pub fn word(&self, from: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(from, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
