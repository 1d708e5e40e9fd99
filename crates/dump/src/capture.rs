//! Writing a running process into a dump.

use crate::describe::{self, Described};
use crate::error::{DumpFailed, refuse};
use crate::pages;
use crate::spool::{self, Spool};
use checkpoint::{BodyError, Collected, Frozen, Known};
use image::Image;
use image::dump::{DumpError, DumpWriter, Origin, Totals};
use os::inject::Memory;
use os::pidfd::PidFd;
use os::ptrace::{self, Event, Stopped, TraceError};
use os::{namespace, process};
use std::io::Write;

/// The parts of a process that a dump leaves out, and those that it holds by content.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpWish {
    /// Leave out open files that cannot be dumped.
    pub ignore_files: bool,
    /// Leave out locks of files.
    pub ignore_locks: bool,
    /// Put the pages of mapped files into the dump.
    pub whole: bool,
}

/// The state in which a dump leaves its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// The process goes on.
    #[default]
    Continue,
    /// The process stops (SIGSTOP).
    Stop,
    /// The process ends (SIGKILL).
    Kill,
}

/// The result of a dump.
#[derive(Clone, Debug)]
pub struct Dumped {
    /// How many pages the dump holds.
    pub totals: Totals,
    /// Parts of the process that the dump lacks, in words.
    pub left_out: Vec<String>,
}

/// The most bytes of a command line that a dump tells.
const ARGUMENTS_BYTES_MAX: usize = 128 << 10;

/// Writes process `pid` to `to`. The process stands still while it is read; a process that goes on
/// waits for no reader, unless it is larger than what memory can hold (module `spool`).
///
/// # Errors
/// The process cannot be dumped, or writing failed. The process goes on in either case.
pub fn dump<W: Write>(pid: i32, wish: DumpWish, after: After, to: W) -> Result<Dumped, DumpFailed> {
    if process::is_own(pid) {
        return refuse("no process dumps itself this way: see tern_dump(3)");
    }
    let pidfd = PidFd::open(pid)?;
    describe::refuse_early(pid)?;
    let origin = origin(pid)?;
    let frozen = checkpoint::freeze(pid)?;
    let described = match describe::describe(pid, wish) {
        Ok(described) => described,
        Err(e) => {
            frozen.thaw();
            return Err(e);
        }
    };
    let (threads, described) = collect(pid, frozen, described)?;
    let left_out = described.left_out.clone();
    let held_max = if after == After::Continue { spool::bytes_max() } else { 0 };
    let mut to = Spool::new(to, held_max);
    let written = write(pid, &Origin { left_out: left_out.clone(), ..origin }, described, &mut to);
    if written.is_ok() {
        match after {
            After::Continue => {}
            After::Stop => pidfd.kill(libc::SIGSTOP)?,
            After::Kill => pidfd.kill(libc::SIGKILL)?,
        }
    }
    release(threads);
    let totals = written?;
    to.finish().map_err(DumpError::from)?;
    Ok(Dumped { totals, left_out })
}

/// Lets threads go on.
fn release(threads: Vec<Stopped>) {
    for thread in threads {
        // A thread that was killed needs nothing.
        let _ = thread.detach(0);
    }
}

/// Collects what only calls made in the process tell, and completes the image. Gives the threads as
/// they were found, stopped: if the dumper is killed from here on, the process goes on.
fn collect(pid: i32, frozen: Frozen, mut described: Described) -> Result<(Vec<Stopped>, Described), DumpFailed> {
    let Frozen { threads, slept, stopped, since } = frozen;
    let ignored = process::status(pid).map_or(0, |status| status.ignored);
    let known = Known { areas: &described.areas, ignored, slept: &slept, witness: None };
    let inner = |tid| Ok(process::inner_tid(tid)?);
    let mut collected = match checkpoint::collect(pid, threads, known, inner, || {}) {
        Ok(collected) => collected,
        Err((e, threads)) => {
            Frozen { threads, slept, stopped, since }.thaw();
            return Err(e.into());
        }
    };
    let completed = complete(pid, &mut described, &mut collected);
    let threads = settle(collected.give_back()?)?;
    match completed {
        Ok(()) => Ok((threads, described)),
        Err(e) => {
            release(threads);
            Err(e.into())
        }
    }
}

/// Has threads stand in stops that end with their tracer and leave nothing. After a call that was
/// made inside, a thread stands before the trap of that: the kernel would deliver SIGTRAP if the
/// tracer was killed (ptrace(2)).
fn settle(threads: Vec<Stopped>) -> Result<Vec<Stopped>, TraceError> {
    let mut settled = Vec::new();
    for thread in threads {
        let tid = thread.tid();
        ptrace::interrupt(tid)?;
        thread.resume(0)?;
        loop {
            match ptrace::wait_for(tid)? {
                Event::Halt(stopped, _) => {
                    settled.push(stopped);
                    break;
                }
                Event::Signal(stopped, signal) => stopped.resume(signal)?,
                // The kernel tells of its end later.
                Event::Exited(_) | Event::Killed(_) => break,
                Event::Made(stopped, _)
                | Event::Exec(stopped, _)
                | Event::SystemCall(stopped)
                | Event::Filter(stopped)
                | Event::Other(stopped) => stopped.resume(0)?,
            }
        }
    }
    Ok(settled)
}

fn complete(pid: i32, described: &mut Described, collected: &mut Collected) -> Result<(), BodyError> {
    let image = &mut described.image;
    let known = std::mem::replace(&mut image.process, collected.process.clone());
    (image.process.umask, image.process.cwd, image.process.exe) = (known.umask, known.cwd, known.exe);
    image.process.vdso = known.vdso;
    image.threads.clone_from(&collected.threads);
    // A thread that may run on all processors of this machine has chosen none.
    let own = os::processor::own();
    image.threads.iter_mut().filter(|t| t.processors == own).for_each(|t| t.processors = None);
    if described.guarded {
        image.process.guards = checkpoint::guards(pid, &image.areas)?;
    }
    checkpoint::find_keys(pid, image)?;
    checkpoint::fire_again(image);
    collected.find_told(image)
}

fn write<W: Write>(pid: i32, origin: &Origin, described: Described, to: W) -> Result<Totals, DumpFailed> {
    let Described { image, identities, whole, .. } = described;
    let code = vdso(pid, &image)?;
    let mut to = DumpWriter::begin(to, origin, &identities, &image, &code)?;
    pages::write(pid, &image, &whole, &mut to)?;
    Ok(to.end()?)
}

/// The code of the vDSO that the process uses.
fn vdso(pid: i32, image: &Image) -> Result<Vec<u8>, DumpFailed> {
    let Some(vdso) = image.process.vdso else { return Ok(Vec::new()) };
    let mut code = vec![0; vdso.end.saturating_sub(vdso.code) as usize];
    Memory::of(pid)?.read(vdso.code, &mut code)?;
    Ok(code)
}

fn origin(pid: i32) -> Result<Origin, DumpFailed> {
    let status = process::status(pid)?;
    let mut arguments = process::arguments(pid)?;
    arguments.truncate(ARGUMENTS_BYTES_MAX);
    let (its, own) = (namespace::clock_offsets(pid), namespace::clock_offsets(std::process::id() as i32));
    Ok(Origin {
        tern: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        features: os::probe::cpu().of_programs(),
        uid: status.uid[0],
        gid: status.gid[0],
        arguments,
        limits: process::limits(pid)?,
        monotonic_ns: namespace::clock_ns(libc::CLOCK_MONOTONIC).saturating_add(its.0 - own.0),
        boottime_ns: namespace::clock_ns(libc::CLOCK_BOOTTIME).saturating_add(its.1 - own.1),
        realtime_ns: namespace::clock_ns(libc::CLOCK_REALTIME),
        left_out: Vec::new(),
    })
}
