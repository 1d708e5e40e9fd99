//! Making a process from a dump, whose pages stream in.
//!
//! An empty process is made under the dumped one's number ([`os::vessel`]), traced and stopped. Its
//! memory is laid out, pages go into place as they come, and its other state is set. Until
//! [`Standing::run`] it can be thrown away: dropping it ends the process.

use crate::error::{DumpFailed, refuse};
use crate::opened::{self, OpenedFiles};
use checkpoint::{Batch, BodyError, Existing, ForeignVdso, Given, Inside, Window};
use image::dump::{DumpError, DumpReader, Frame, Kind, Origin, Run};
use image::{Image, Rseq, Thread};
use os::inject::{Memory, REGION_BYTES};
use os::namespace::{self, CapabilitySets};
use os::pidfd::PidFd;
use os::ptrace::Stopped;
use os::vessel::{self, OwnNumbers};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// How strictly a dump is taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct UndumpWish {
    /// Leave descriptors closed whose files are not there.
    pub close_missing: bool,
    /// Map files that are others than at the dump.
    pub any_files: bool,
    /// Take a processor that lacks features of the dumping machine's.
    pub any_cpu: bool,
}

/// A dump whose head has been read: everything but its pages.
#[derive(Debug)]
pub struct Undump<R: Read> {
    reader: DumpReader<R>,
    origin: Origin,
    image: Image,
    vdso: Vec<u8>,
    files: OpenedFiles,
}

/// A process that stands still, complete.
#[derive(Debug)]
pub struct Standing {
    threads: Vec<Stopped>,
    shell: Shell,
}

/// The process that becomes the dumped one. Dropping it ends it.
#[derive(Debug)]
struct Shell {
    host: i32,
    pidfd: PidFd,
    own: Option<OwnNumbers>,
    runs: bool,
}

impl Drop for Shell {
    fn drop(&mut self) {
        if !self.runs {
            let _ = self.pidfd.kill(libc::SIGKILL);
        }
    }
}

/// A process that runs.
#[derive(Debug)]
pub struct Running {
    /// The number of the process in the caller's PID namespace.
    pub pid: i32,
    /// Its own namespace, which ends with the caller at the earliest.
    pub own: Option<OwnNumbers>,
}

/// The most features that a refusal names.
const FEATURES_NAMED: usize = 8;
/// PR_SET_PDEATHSIG of prctl(2).
const PR_SET_PDEATHSIG: u64 = 1;

impl<R: Read> Undump<R> {
    /// Reads the head of a dump, and opens its files with the rights of the caller. No process is
    /// made.
    ///
    /// # Errors
    /// The stream is no dump, a file or feature is missing, or another file has its name.
    pub fn begin(from: R, wish: UndumpWish) -> Result<Undump<R>, DumpFailed> {
        let mut reader = DumpReader::begin(from)?;
        let mut next = || reader.next_frame()?.ok_or(DumpError::CutOff);
        let Frame::Origin(origin) = next()? else { return out_of_turn(Kind::Origin) };
        let Frame::Identities(identities) = next()? else { return out_of_turn(Kind::Identities) };
        let Frame::Image(mut image) = next()? else { return out_of_turn(Kind::Image) };
        let Frame::Vdso(vdso) = next()? else { return out_of_turn(Kind::Vdso) };
        if !wish.any_cpu {
            check_processor(&origin)?;
        }
        if image.threads.iter().any(|thread| thread.tid == 1) {
            return refuse("it was the first process of a container, whose number no other can have");
        }
        let files = opened::open(&mut image, &identities, wish)?;
        let cwd = OsStr::from_bytes(&image.process.cwd);
        std::env::set_current_dir(cwd)
            .or_else(|e| refuse(format!("it needs its working directory {}: {e}", cwd.display())))?;
        Ok(Undump { reader, origin: *origin, image: *image, vdso, files })
    }

    /// Makes the process, and takes its pages from the stream, up to the end of the dump and no
    /// byte further. The caller has one thread.
    ///
    /// # Errors
    /// The stream breaks, or the kernel refuses something. No process is left.
    pub fn stand_up(mut self) -> Result<Standing, DumpFailed> {
        let (stopped, shell) = self.shell()?;
        let mapped = self.map(stopped)?;
        self.take_pages(&mapped)?;
        let own = shell.own.as_ref().is_some_and(|own| own.has_users);
        let threads = finish(&self.image, mapped, own)?;
        for (which, (soft, hard)) in (0..).zip(&self.origin.limits) {
            os::process::limit(shell.host, which, os::process::Limit { soft: *soft, hard: *hard })?;
        }
        Ok(Standing { threads, shell })
    }

    /// Makes the empty process.
    fn shell(&self) -> Result<(Stopped, Shell), DumpFailed> {
        let pid = self.image.process.pid;
        let has_shifted = self.continue_clocks();
        if self.image.threads.iter().all(|thread| vessel::is_free(thread.tid)) {
            match vessel::make(pid, None) {
                Ok((stopped, pidfd)) => {
                    let host = stopped.tid().0;
                    return Ok((stopped, Shell { host, pidfd, own: None, runs: false }));
                }
                Err(e) if [libc::EPERM, libc::EEXIST, libc::EINVAL].contains(&e.errno()) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let own = vessel::own_numbers()?;
        if !has_shifted {
            self.continue_clocks();
        }
        let (stopped, pidfd) = vessel::make(pid, Some(&own))?;
        let host = stopped.tid().0;
        Ok((stopped, Shell { host, pidfd, own: Some(own), runs: false }))
    }

    /// Has the clocks that count from the machine's start go on where the process saw them last:
    /// programs keep times of them. Tells whether the machine allowed it.
    fn continue_clocks(&self) -> bool {
        let own = namespace::clock_offsets(std::process::id() as i32);
        let ahead = |then: i64, clock, own: i64| then.saturating_sub(namespace::clock_ns(clock)).saturating_add(own);
        let monotonic = ahead(self.origin.monotonic_ns, libc::CLOCK_MONOTONIC, own.0);
        let boottime = ahead(self.origin.boottime_ns, libc::CLOCK_BOOTTIME, own.1);
        namespace::shift_time(monotonic, boottime).is_ok()
    }

    /// Lays out the memory of the process, and makes its objects.
    fn map(&self, stopped: Stopped) -> Result<Mapped, DumpFailed> {
        let (host, image) = (stopped.tid(), &self.image);
        let areas = os::areas::read(host.0)?;
        let memory = Memory::of(host.0)?;
        let gate = os::inject::gate(&memory, &areas)?;
        let taken = areas.iter().map(|a| (a.start, a.end)).chain(image.areas.iter().map(|a| (a.start, a.end)));
        let kernels = image.process.vdso.map(|v| (v.start, v.end));
        let region = checkpoint::free_place(taken.chain(kernels))?;
        let rseq = stopped.rseq()?;
        let mut inside = Inside::enter(stopped, memory, gate)?;
        inside.map_region(region)?;
        checkpoint::forget(&mut inside, Rseq { area: rseq.area, bytes: rseq.bytes, signature: rseq.signature })?;
        let mut given = Given { files: self.files.numbers.clone(), ..Given::default() };
        given.objects = checkpoint::make_objects(&mut inside, image, Some(self.files.above), &[])?;
        self.lay_out(&mut inside, &given, region)?;
        given.windows = memories(&mut inside, image, &given, self.files.above)?;
        checkpoint::reset_actions(&mut inside)?;
        Ok(Mapped { inside, given })
    }

    /// Maps the areas. Where this kernel's vDSO is another than the dump's, a copy of the dump's
    /// takes its place ([`ForeignVdso`]).
    fn lay_out(&self, inside: &mut Inside, given: &Given, region: u64) -> Result<(), DumpFailed> {
        let (host, image) = (inside.tid().0, &self.image);
        let (none, old) = (Existing::default(), image.process.vdso);
        let has_code = old.is_some_and(|vdso| vdso.code < vdso.end);
        if old.is_some() && (!has_code || self.vdso == os::vdso::own()) {
            return Ok(checkpoint::map_memory(host, inside, image, given, none)?);
        }
        let taken = image.areas.iter().map(|a| (a.start, a.end)).chain(old.map(|v| (v.start, v.end)));
        let free = checkpoint::free_place(taken.chain([(region, region + REGION_BYTES)]))?;
        let laid_out = checkpoint::laid_out_with_foreign_vdso(image, free);
        checkpoint::map_memory(host, inside, &laid_out, given, none)?;
        if let Some(old) = old {
            ForeignVdso::new(&self.vdso).write(inside.memory(), old)?;
        }
        Ok(())
    }

    /// Puts pages in place until the dump ends.
    fn take_pages(&mut self, mapped: &Mapped) -> Result<(), DumpFailed> {
        const ZEROS_BYTES: usize = 64 << 10;
        let (areas, windows, memory) = (&self.image.areas, &mapped.given.windows, mapped.inside.memory());
        let zeros = [0; ZEROS_BYTES];
        loop {
            match self.reader.next_frame()? {
                Some(Frame::Pages(runs, bytes)) => checkpoint::put_pages(&runs, &bytes, areas, windows, memory)?,
                Some(Frame::Zeros(runs)) => {
                    for run in runs.iter().flat_map(|run| pieces(*run, ZEROS_BYTES as u64)) {
                        checkpoint::put_pages(&[run], &zeros[..run.1 as usize], areas, windows, memory)?;
                    }
                }
                Some(Frame::End(_)) => return Ok(()),
                _ => return out_of_turn(Kind::Pages),
            }
        }
    }
}

/// Divides a run into pieces of at most so many bytes. A hostile run may be as long as memory.
fn pieces(run: Run, most: u64) -> impl Iterator<Item = Run> {
    let (at, bytes) = run;
    let end = at + bytes;
    std::iter::successors(Some(at), move |at| at.checked_add(most).filter(|next| *next < end))
        .map(move |at| (at, most.min(end - at)))
}

fn out_of_turn<T>(kind: Kind) -> Result<T, DumpFailed> {
    Err(DumpError::Turn(kind).into())
}

fn check_processor(origin: &Origin) -> Result<(), DumpFailed> {
    let own = os::probe::cpu().of_programs();
    let known = |feature: &&String| os::probe::PROGRAM_FEATURES.contains(&feature.as_str());
    let missing = origin.features.iter().filter(known).filter(|feature| !own.contains(feature));
    let missing: Vec<&str> = missing.take(FEATURES_NAMED).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    refuse(format!("this processor lacks {missing}, which the program may use (--any-cpu takes it nevertheless)"))
}

/// A process whose memory is laid out.
struct Mapped {
    inside: Inside,
    given: Given,
}

/// Makes the memories of an image, empty.
fn memories(inside: &mut Inside, image: &Image, given: &Given, from: i32) -> Result<Vec<Window>, DumpFailed> {
    if image.objects.memories.is_empty() {
        return Ok(Vec::new());
    }
    let own = os::areas::read(inside.tid().0)?.into_iter().map(|a| (a.start, a.end));
    let taken = own.chain(image.areas.iter().map(|a| (a.start, a.end))).collect();
    let placement = checkpoint::Placement { taken, lowest_fd: from, theirs: &[] };
    Ok(checkpoint::make_memories(inside, image, given, placement)?)
}

/// Sets all state but memory. Gives the threads, which stand still.
fn finish(image: &Image, mapped: Mapped, gives_up: bool) -> Result<Vec<Stopped>, DumpFailed> {
    checkpoint::check_guards(image)?;
    let Mapped { mut inside, given } = mapped;
    let Some((first, others)) = image.threads.split_first() else { return refuse("the dump has no thread") };
    checkpoint::settle_memories(&mut inside, image, &given.windows)?;
    if image.process.keys != 0 {
        checkpoint::set_keys(&mut inside, image)?;
    }
    let mut batch = inside.batch();
    checkpoint::set_process(&mut batch, image, &given, false);
    opened::set_descriptors(&mut batch, image, &given, &os::process::descriptors(inside.tid().0)?);
    inside.run(&batch)?;
    checkpoint::watch_again(&mut inside, image)?;
    let mut threads = Vec::new();
    for thread in others {
        let beside = inside.make_thread(thread.tid)?;
        threads.push(finish_thread(beside, image, thread, gives_up)?);
    }
    if !image.process.timers.is_empty() {
        checkpoint::make_timers(inside.tid().0, &mut inside, image)?;
    }
    checkpoint::requeue_own(&mut inside, image, first, &[])?;
    checkpoint::requeue(&mut inside, image, &[])?;
    let mut batch = inside.batch();
    checkpoint::arm_timers(&mut batch, &image.process.timers);
    checkpoint::give_way(&mut batch, first);
    let stopped = checkpoint::finish(inside, batch, first, true, |inside, mut batch| {
        batch.must("outliving its maker", libc::SYS_prctl, [PR_SET_PDEATHSIG, 0, 0, 0, 0, 0]);
        give_up(&mut batch, gives_up);
        checkpoint::set_dumpable(&mut batch, &image.process);
        Ok(inside.run(&batch).map(drop)?)
    })?;
    threads.insert(0, stopped);
    Ok(threads)
}

fn finish_thread(beside: Inside, image: &Image, thread: &Thread, gives_up: bool) -> Result<Stopped, BodyError> {
    let mut batch = beside.batch();
    checkpoint::give_way(&mut batch, thread);
    checkpoint::finish(beside, batch, thread, false, |inside, mut batch| {
        give_up(&mut batch, gives_up);
        inside.run(&batch)?;
        checkpoint::requeue_own(inside, image, thread, &[])
    })
}

/// Gives up all capabilities, if the process has them only because a user namespace was made for
/// it.
fn give_up(batch: &mut Batch, gives_up: bool) {
    if !gives_up {
        return;
    }
    let words = |list: &[u32]| list.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let (head, data) = namespace::capabilities(CapabilitySets::default());
    let (head, data) = (batch.put(&words(&head)), batch.put(&words(&data)));
    batch.must("giving up capabilities", libc::SYS_capset, [head, data, 0, 0, 0, 0]);
}

impl Standing {
    /// Lets the process run, without a tracer.
    ///
    /// # Errors
    /// The process was killed.
    pub fn run(mut self) -> Result<Running, DumpFailed> {
        for thread in std::mem::take(&mut self.threads) {
            thread.detach(0)?;
        }
        self.shell.runs = true;
        Ok(Running { pid: self.shell.host, own: self.shell.own.take() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_divided() {
        assert_eq!(pieces((0x1000, 0x3000), 0x2000).collect::<Vec<_>>(), [(0x1000, 0x2000), (0x3000, 0x1000)]);
        assert_eq!(pieces((0x1000, 0x1000), 0x2000).collect::<Vec<_>>(), [(0x1000, 0x1000)]);
    }
}
