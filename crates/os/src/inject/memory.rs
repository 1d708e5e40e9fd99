//! Memory of a traced process, whatever its protections (/proc/PID/mem: proc_pid_mem(5)).

use crate::{Error, Result};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Runs that one call takes (UIO_MAXIOV).
const IOV_MAX: usize = 1024;

fn remote(runs: &[(u64, u64)]) -> Vec<libc::iovec> {
    runs.iter().map(|(at, bytes)| libc::iovec { iov_base: *at as *mut _, iov_len: *bytes as usize }).collect()
}

/// Reads and writes a process' memory; writes also where the process itself may not (as a
/// debugger's breakpoints do).
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

    /// Whose it is.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What it is made of: the number of its descriptor, and of its process.
    pub(crate) fn parts(&self) -> (i32, i32) {
        (self.file.as_raw_fd(), self.pid)
    }

    /// From a duplicate of that descriptor.
    pub(crate) fn from_parts(file: OwnedFd, pid: i32) -> Memory {
        Memory { file: Arc::new(file.into()), pid }
    }

    /// Fills `into` from address `from`.
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<()> {
        let failed = |e| Error::new(format!("reading memory of {} at {from:#x}", self.pid), gone(e));
        self.file.read_exact_at(into, from).map_err(failed)
    }

    /// Copies `bytes` to address `to`.
    pub fn write(&self, to: u64, bytes: &[u8]) -> Result<()> {
        let failed = |e| Error::new(format!("writing memory of {} at {to:#x}", self.pid), gone(e));
        self.file.write_all_at(bytes, to).map_err(failed)
    }

    /// Fills `into` from these runs (address, bytes), whose bytes it holds in all.
    pub fn read_runs(&self, runs: &[(u64, u64)], into: &mut [u8]) -> Result<()> {
        let mut rest = into;
        for runs in runs.chunks(IOV_MAX) {
            let bytes = runs.iter().map(|r| r.1 as usize).sum::<usize>().min(rest.len());
            let (part, tail) = rest.split_at_mut(bytes);
            rest = tail;
            let local = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
            // SAFETY: the kernel writes at most the length of a live slice.
            let n = unsafe { libc::process_vm_readv(self.pid, &local, 1, remote(runs).as_ptr(), runs.len() as u64, 0) };
            // What the process itself may not read has come short.
            self.each_rest(runs, usize::try_from(n).unwrap_or(0), |at, range| self.read(at, &mut part[range]))?;
        }
        Ok(())
    }

    /// Copies `bytes` to these runs, one after the other.
    pub fn write_runs(&self, runs: &[(u64, u64)], bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        for run in runs {
            let (part, tail) = rest.split_at(rest.len().min(run.1 as usize));
            rest = tail;
            let local = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
            // SAFETY: the kernel reads at most the length of a live slice.
            let n = unsafe { libc::process_vm_writev(self.pid, &local, 1, remote(&[*run]).as_ptr(), 1, 0) };
            // What the process itself may not write has come short.
            self.each_rest(&[*run], usize::try_from(n).unwrap_or(0), |at, range| self.write(at, &part[range]))?;
        }
        Ok(())
    }

    /// Tells what of the runs lies behind the first `done` bytes: address, and place among all.
    fn each_rest(
        &self,
        runs: &[(u64, u64)],
        done: usize,
        mut each: impl FnMut(u64, std::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut from = 0;
        for (at, bytes) in runs {
            let end = from + *bytes as usize;
            if end > done {
                let skipped = done.saturating_sub(from);
                each(at + skipped as u64, from + skipped..end)?;
            }
            from = end;
        }
        Ok(())
    }

    /// Gives a little-endian word.
    pub fn word(&self, from: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(from, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Nothing is read or written of a memory that nobody has any more (mem_rw in fs/proc/base.c).
fn gone(e: std::io::Error) -> std::io::Error {
    use std::io::ErrorKind::{UnexpectedEof, WriteZero};
    match e.kind() {
        UnexpectedEof | WriteZero => std::io::Error::from_raw_os_error(libc::ESRCH),
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_has_no_memory() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let memory = Memory::of(child.id() as i32).unwrap();
        let area = crate::areas::read(child.id() as i32).unwrap().remove(0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(memory.read(area.start, &mut [0; 8]).unwrap_err().errno(), libc::ESRCH);
        assert_eq!(memory.write(area.start, &[0; 8]).unwrap_err().errno(), libc::ESRCH);
    }
}
