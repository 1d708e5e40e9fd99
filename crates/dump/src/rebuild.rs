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
use os::ptrace::{Stopped, TraceError};
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
            vessel::end(self.host, &self.pidfd);
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
        let (mut empty, shell) = self.empty()?;
        let given = self.map(&mut empty)?;
        self.take_pages(&given, empty.first.memory())?;
        let gives_up = shell.own.as_ref().is_some_and(|own| own.has_users);
        let threads = Finishing { image: &self.image, given, gives_up }.finish(empty)?;
        for (which, (soft, hard)) in (0..).zip(&self.origin.limits) {
            os::process::limit(shell.host, which, os::process::Limit { soft: *soft, hard: *hard })?;
        }
        Ok(Standing { threads, shell })
    }

    /// Makes the empty process, where all of its numbers are free.
    fn empty(&self) -> Result<(Empty, Shell), DumpFailed> {
        const NOT_HERE: [i32; 3] = [libc::EPERM, libc::EEXIST, libc::EINVAL];
        let has_shifted = self.continue_clocks();
        if self.image.threads.iter().all(|thread| vessel::is_free(thread.tid)) {
            match self.make(None) {
                Err(e) if NOT_HERE.contains(&e.errno()) => {}
                made => return made,
            }
        }
        let own = vessel::own_numbers().or_else(|e| {
            refuse(format!("its PID or thread ids are taken here, or its user may not choose them, and in a namespace of its own they cannot be: {e}"))
        })?;
        if !has_shifted {
            self.continue_clocks();
        }
        self.make(Some(own))
    }

    /// Makes the empty process with all of its threads. Their numbers are taken before a page is: a
    /// stream cannot be read twice.
    fn make(&self, own: Option<OwnNumbers>) -> Result<(Empty, Shell), DumpFailed> {
        let image = &self.image;
        let (stopped, pidfd) = vessel::make(image.process.pid, own.as_ref())?;
        let shell = Shell { host: stopped.tid().0, pidfd, own, runs: false };
        let areas = os::areas::read(shell.host)?;
        let memory = Memory::of(shell.host)?;
        let gate = os::inject::gate(&memory, &areas)?;
        let taken = areas.iter().map(|a| (a.start, a.end)).chain(image.areas.iter().map(|a| (a.start, a.end)));
        let kernels = image.process.vdso.map(|v| (v.start, v.end));
        let region = checkpoint::free_place(taken.chain(kernels))?;
        let rseq = stopped.rseq()?;
        let mut first = Inside::enter(stopped, memory, gate)?;
        first.map_region(region)?;
        checkpoint::forget(&mut first, Rseq { area: rseq.area, bytes: rseq.bytes, signature: rseq.signature })?;
        let mut others = Vec::new();
        for thread in image.threads.iter().skip(1) {
            others.push(first.make_thread(thread.tid)?);
        }
        Ok((Empty { first, others, region }, shell))
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
    fn map(&self, empty: &mut Empty) -> Result<Given, DumpFailed> {
        let (image, inside) = (&self.image, &mut empty.first);
        let mut given = Given { files: self.files.numbers.clone(), ..Given::default() };
        given.objects = checkpoint::make_objects(inside, image, Some(self.files.above), &[])?;
        self.lay_out(inside, &given, empty.region)?;
        given.windows = memories(inside, image, &given, self.files.above)?;
        checkpoint::reset_actions(inside)?;
        Ok(given)
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
    fn take_pages(&mut self, given: &Given, memory: &Memory) -> Result<(), DumpFailed> {
        const ZEROS_BYTES: usize = 64 << 10;
        let (areas, windows) = (&self.image.areas, &given.windows);
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

/// A process that has its threads, and nothing else of the dump.
struct Empty {
    first: Inside,
    /// The other threads, in the image's order.
    others: Vec<Inside>,
    /// Address of the region for injected calls.
    region: u64,
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

/// The last part: all state but memory.
struct Finishing<'a> {
    image: &'a Image,
    given: Given,
    /// Whether the process gives up its capabilities.
    gives_up: bool,
}

impl Finishing<'_> {
    /// Sets all state but memory. Gives the threads, which stand still.
    fn finish(&self, empty: Empty) -> Result<Vec<Stopped>, DumpFailed> {
        let (image, Empty { first: mut inside, others, .. }) = (self.image, empty);
        checkpoint::check_guards(image)?;
        let Some((first, rest)) = image.threads.split_first() else { return refuse("the dump has no thread") };
        checkpoint::settle_memories(&mut inside, image, &self.given.windows)?;
        if image.process.keys != 0 {
            checkpoint::set_keys(&mut inside, image)?;
        }
        let mut batch = inside.batch();
        checkpoint::set_process(&mut batch, image, &self.given, false);
        opened::set_descriptors(&mut batch, image, &self.given, &os::process::descriptors(inside.tid().0)?);
        inside.run(&batch)?;
        checkpoint::watch_again(&mut inside, image)?;
        // The instruction from which they made calls is gone.
        let gate = os::inject::gate(inside.memory(), &os::areas::read(inside.tid().0)?)?;
        let mut threads = Vec::new();
        for (thread, mut beside) in rest.iter().zip(others) {
            beside.set_gate(gate);
            threads.push(self.finish_thread(beside, thread)?);
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
            self.give_up(&mut batch);
            checkpoint::set_dumpable(&mut batch, &image.process);
            Ok(inside.run(&batch).map(drop)?)
        })?;
        threads.insert(0, stopped);
        Ok(threads)
    }

    fn finish_thread(&self, beside: Inside, thread: &Thread) -> Result<Stopped, BodyError> {
        let mut batch = beside.batch();
        checkpoint::give_way(&mut batch, thread);
        checkpoint::finish(beside, batch, thread, false, |inside, mut batch| {
            self.give_up(&mut batch);
            inside.run(&batch)?;
            checkpoint::requeue_own(inside, self.image, thread, &[])
        })
    }

    /// Gives up all capabilities, if the process has them only because of its user namespace.
    fn give_up(&self, batch: &mut Batch) {
        if !self.gives_up {
            return;
        }
        let words = |list: &[u32]| list.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (head, data) = namespace::capabilities(CapabilitySets::default());
        let (head, data) = (batch.put(&words(&head)), batch.put(&words(&data)));
        batch.must("giving up capabilities", libc::SYS_capset, [head, data, 0, 0, 0, 0]);
    }
}

impl Standing {
    /// Lets the process run, without a tracer.
    ///
    /// # Errors
    /// The kernel does not let go of a thread.
    pub fn run(mut self) -> Result<Running, DumpFailed> {
        for thread in std::mem::take(&mut self.threads) {
            let tid = thread.tid();
            match thread.detach(0) {
                Ok(()) => {}
                // The threads that run already have ended the process. Its end is told when that of
                // each other thread was heard by the tracer.
                Err(TraceError::Gone) if tid.0 != self.shell.host => {
                    os::ptrace::wait_for(tid)?;
                }
                Err(TraceError::Gone) => {}
                Err(e) => return Err(e.into()),
            }
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
