//! Touching memory of which a page may be a file's that this very process serves, in threads that
//! have none of its descriptors.
//!
//! A thread that waits for such a page need not hear of SIGKILL. Whoever serves a file system ends
//! it by closing its device, and so does the kernel for one that is killed; but not as long as a
//! thread that shares its descriptors waits, which it would for ever then.

use crate::error::check;
use crate::inject::Memory;
use crate::namespace;
use crate::pidfd::PidFd;
use crate::{Error, Result};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Leaves the calling thread with a table of descriptors of its own, in which there are 0, 1 and 2.
fn leave_descriptors() -> Result<()> {
    const CLOSE_RANGE_UNSHARE: i32 = 2;
    // SAFETY: the threads of this file have nothing from before that owns a descriptor; those of
    // all others stay as they are.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_UNSHARE) }, || {
        "leaving descriptors".into()
    })
    .map(drop)
}

/// Does one thing that uses no descriptor, with the rights of this user and group to files.
pub(crate) fn once<T: Send>(id: u32, one: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let alone = move || {
        leave_descriptors()?;
        namespace::touch_files_as(id, id);
        one()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("apart".into()).spawn_scoped(scope, alone);
        let thread = thread.map_err(|e| Error::new("starting a thread", e))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

type Work = Box<dyn FnOnce(&PidFd) + Send>;

/// A thread for that, to which much is given.
#[derive(Debug)]
pub struct Apart {
    to: Sender<Work>,
}

impl Apart {
    /// Starts it; it touches files as this user and group, and ends when this value does.
    pub fn start(name: &str, id: u32) -> Result<Apart> {
        let (to, from) = channel();
        let (said, hears) = channel();
        let run = move || serve(id, &from, &said);
        std::thread::Builder::new().name(name.into()).spawn(run).map_err(|e| Error::new("starting a thread", e))?;
        hears.recv().map_err(|_| ended())??;
        Ok(Apart { to })
    }

    /// Does `one` there with this memory, and waits for it.
    pub fn with<T: Send + 'static>(
        &self,
        memory: &Memory,
        one: impl FnOnce(&Memory) -> T + Send + 'static,
    ) -> Result<T> {
        let (said, hears) = channel();
        let (file, pid) = memory.parts();
        let work = move |process: &PidFd| {
            let memory = process.get_fd(file).map(|file| Memory::from_parts(file, pid));
            // Whoever asked waits.
            let _ = said.send(memory.map(|memory| one(&memory)));
        };
        self.to.send(Box::new(work)).map_err(|_| ended())?;
        hears.recv().map_err(|_| ended())?
    }
}

fn ended() -> Error {
    Error::new("asking a thread", std::io::Error::from(std::io::ErrorKind::BrokenPipe))
}

fn serve(id: u32, from: &Receiver<Work>, said: &Sender<Result<()>>) {
    // The descriptors of a process are those of its first thread, to who asks for them by its
    // number.
    let process = leave_descriptors().and_then(|()| PidFd::open(std::process::id() as i32));
    namespace::touch_files_as(id, id);
    let (process, begun) = match process {
        Ok(process) => (Some(process), Ok(())),
        Err(e) => (None, Err(e)),
    };
    let _ = said.send(begun);
    let Some(process) = process else { return };
    from.iter().for_each(|work| work(&process));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn memory_is_touched_without_descriptors() {
        let apart = Apart::start("apart", 0).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let memory = Memory::of(std::process::id() as i32).unwrap();
        let word = Box::new(7u64);
        let at = std::ptr::from_ref(&*word) as u64;
        assert_eq!(apart.with(&memory, move |memory| memory.word(at).unwrap()).unwrap(), 7);
        assert_eq!(once(0, || Ok(std::fs::read_dir("/proc/thread-self/fd").unwrap().count())).unwrap(), 4);
        // Nobody there holds the pipe.
        assert!(writer.as_fd().try_clone_to_owned().is_ok());
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
