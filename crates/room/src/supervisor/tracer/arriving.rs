//! Bodies that come from elsewhere: the porter makes an empty process under the right number, which
//! stops in a trap; then its memory is laid out, the pages are written by another thread
//! ([`crate::supervisor::transfer::receiver`]), and its state is set. It runs when home says so:
//! until then the original may still go on.

use crate::sandbox::porter::body::{MARK_EMPTY, filter};
use crate::sandbox::porter::setup::View;
use crate::state::cpu_times::Before;
use crate::state::guests::Who;
use crate::state::oom_score::endanger;
use crate::state::shared::Shared;
use crate::supervisor::tracer::state::arriving::{ArrivalState, MappedBody, Shell};
use crate::supervisor::tracer::{Tracer, rights};
use checkpoint::{Batch, BodyError, Given, Inside, Window};
use image::{Area, Image, Object, Opened};
use os::awake::Awake;
use os::inject::{Memory, REGION_BYTES};
use os::pidfd::PidFd;
use os::processor::Together;
use os::ptrace::{Stopped, TraceError};
use os::userfault::Userfault;
use room_protocol::ToHome;
use room_protocol::message::{Arrival, Capabilities};
use std::collections::{BTreeSet, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

impl Tracer {
    /// The trap of an empty process; gives the stop back if it is another's.
    pub fn empty_stop(&mut self, stopped: Stopped, signal: i32) -> Result<Option<Stopped>, TraceError> {
        if signal != libc::SIGTRAP || stopped.registers()?.rax != MARK_EMPTY {
            return Ok(Some(stopped));
        }
        let Some(who) = self.meet(stopped.tid()) else { return Ok(Some(stopped)) };
        match self.arriving.states.remove(&who.pid) {
            Some(ArrivalState::Made(arrival)) => {
                endanger(stopped.tid(), 0);
                self.arriving.states.insert(who.pid, ArrivalState::Empty(arrival, stopped));
                self.room.tell(&ToHome::Placed { pid: who.pid, result: Ok(()) });
                Ok(None)
            }
            Some(other) => {
                self.arriving.states.insert(who.pid, other);
                Ok(Some(stopped))
            }
            None => Ok(Some(stopped)),
        }
    }

    /// Lays out the memory of an empty process.
    pub fn map_arriving(
        &mut self,
        pid: i32,
        image: Arc<Image>,
        answer: &Sender<Result<(Memory, Vec<Window>), String>>,
    ) {
        let _ = answer.send(self.fit(pid, image));
    }

    /// Lays out the memory of an empty process, or makes what is laid out fit a later image.
    fn fit(&mut self, pid: i32, image: Arc<Image>) -> Result<(Memory, Vec<Window>), String> {
        let mapped = match self.arriving.states.remove(&pid) {
            Some(ArrivalState::Empty(arrival, stopped)) => self.map(stopped, image, arrival),
            Some(ArrivalState::Mapped(mapped)) => relayout(&self.room, mapped, image, &self.arriving.groups.known(pid)),
            _ => return Err("no empty process waits for this image".into()),
        };
        let learn = |mapped: MappedBody| {
            self.arriving.groups.learn(pid, mapped.shell.inside.tid(), &mapped.given.windows)?;
            Ok::<_, BodyError>(mapped)
        };
        let mapped = mapped.and_then(learn).map_err(|e| e.to_string())?;
        let memory = (mapped.shell.inside.memory().clone(), mapped.given.windows.clone());
        self.arriving.states.insert(pid, ArrivalState::Mapped(mapped));
        Ok(memory)
    }

    /// Watches the missing pages of a body, which follow when it runs.
    pub fn watch_arriving(&mut self, pid: i32, stale: &[checkpoint::Run], answer: &Sender<Result<Userfault, String>>) {
        let watched = match self.arriving.states.get_mut(&pid) {
            Some(ArrivalState::Mapped(MappedBody { shell, .. })) => {
                let host = shell.inside.tid();
                let discarded = checkpoint::discard(&mut shell.inside, stale);
                discarded.and_then(|()| checkpoint::watch_missing(&mut shell.inside, host.0)).map_err(|e| e.to_string())
            }
            _ => Err("its memory is not laid out".into()),
        };
        let _ = answer.send(watched);
    }

    /// All pages are there, or follow: the rest of its state. Its memory is made to fit the `image`
    /// first, if there is one.
    pub fn rebuild_arriving(&mut self, pid: i32, image: Option<Arc<Image>>, gone: &[checkpoint::Run]) {
        const ABSENT: &str = "its memory is not laid out";
        if !self.arriving.states.contains_key(&pid) {
            // Home has called it off meanwhile: it is vanishing, and that is told when it has.
            return self.room.tell(&ToHome::Rebuilt { pid, result: Err(ABSENT.into()) });
        }
        let awake = Awake::now();
        let fits = image.map_or(Ok(()), |image| self.fit(pid, image).map(drop));
        let rebuilt = match (fits, self.arriving.states.remove(&pid)) {
            (Err(why), _) => Err(why),
            (Ok(()), Some(ArrivalState::Mapped(mut mapped))) => {
                let discarded = checkpoint::discard(&mut mapped.shell.inside, gone);
                discarded.and_then(|()| self.rebuild(mapped)).map_err(|e| e.to_string())
            }
            (Ok(()), _) => Err(ABSENT.to_owned()),
        };
        let stands = |threads| ArrivalState::Stands { threads, _awake: awake };
        let result = rebuilt.map(|threads| drop(self.arriving.states.insert(pid, stands(threads))));
        if result.is_err() {
            self.forget_arriving(pid);
        }
        self.room.tell(&ToHome::Rebuilt { pid, result });
    }

    fn forget_arriving(&mut self, pid: i32) {
        self.bodies.forget(pid);
        self.kill(pid);
        self.room.guests().remove(pid);
    }

    /// Makes a process of a body whose pages are in place; gives its threads, which stand still.
    fn rebuild(&mut self, mapped: MappedBody) -> Result<Vec<Stopped>, BodyError> {
        os::fault::at("rebuild there")?;
        let MappedBody { arrival, given, shell, image } = mapped;
        let image = &*image;
        checkpoint::check_guards(image)?;
        let Shell { mut inside, descriptors, kept, confined } = *shell;
        let host = inside.tid();
        checkpoint::settle_memories(&mut inside, image, &given.windows)?;
        // Those of memories are closed by now.
        let descriptors = if given.windows.is_empty() { descriptors } else { os::process::descriptors(host.0)? };
        if image.process.keys != 0 {
            checkpoint::set_keys(&mut inside, image)?;
        }
        let mut batch = inside.batch();
        checkpoint::set_process(&mut batch, image, &given, false);
        set_descriptors(&descriptors, &mut batch, image, &arrival, &given);
        let Some((first, others)) = image.threads.split_first() else {
            return Err(BodyError::NotMigratable("it has no thread".into()));
        };
        let mut done = Vec::new();
        // Each batch is a way there and back: who has nothing that must come in between does with
        // one.
        let waits = !image.process.pending.is_empty() || image.threads.iter().any(|t| !t.pending.is_empty());
        if waits || !others.is_empty() || !image.process.timers.is_empty() || !image.objects.made.is_empty() {
            inside.run(&batch)?;
            done = self.rebuild_more(&mut inside, image, kept)?;
            batch = inside.batch();
        }
        checkpoint::arm_timers(&mut batch, &image.process.timers);
        if let Some(guest) = self.room.guests().get_mut(image.process.pid) {
            guest.before = Some(Arc::new(Before::of(image)));
        }
        checkpoint::give_way(&mut batch, first);
        let stopped = checkpoint::finish(inside, batch, first, true, |inside, mut batch| {
            give_up_capabilities(&mut batch, kept);
            checkpoint::set_dumpable(&mut batch, &image.process);
            match confined {
                true => Ok(inside.run(&batch).map(drop)?),
                false => self.confine(inside, batch, image.process.pid),
            }
        })?;
        let (soft, hard) = arrival.descriptors_max;
        os::process::limit(host.0, libc::RLIMIT_NOFILE, os::process::Limit { soft, hard })?;
        done.insert(0, stopped);
        Ok(done)
    }

    /// Makes what not every process has: epoll instances, threads but the first, timers, signals
    /// that wait. Gives the threads, which stand still.
    fn rebuild_more(
        &mut self,
        inside: &mut Inside,
        image: &Image,
        kept: Capabilities,
    ) -> Result<Vec<Stopped>, BodyError> {
        // What has happened meanwhile to what stays at home, home says once more before it runs.
        checkpoint::watch_again(inside, image)?;
        if image.objects.made.iter().any(|m| matches!(m.object, Object::Signals { .. }))
            && let Some(guest) = self.room.guests().get_mut(image.process.pid)
        {
            guest.reads_signals = true;
        }
        let mut done = Vec::new();
        for thread in image.threads.iter().skip(1) {
            let beside = inside.make_thread(thread.tid)?;
            self.room.guests().add_thread(beside.tid(), Who { pid: image.process.pid, tid: thread.tid });
            let mut batch = beside.batch();
            checkpoint::give_way(&mut batch, thread);
            let finished = checkpoint::finish(beside, batch, thread, false, |inside, mut batch| {
                give_up_capabilities(&mut batch, kept);
                inside.run(&batch)?;
                checkpoint::requeue_own(inside, image, thread, &[])
            });
            done.push(finished?);
        }
        if !image.process.timers.is_empty() {
            checkpoint::make_timers(inside.tid().0, inside, image)?;
        }
        let first = image.threads.first().map(|first| checkpoint::requeue_own(inside, image, first, &[]));
        first.unwrap_or(Ok(()))?;
        checkpoint::requeue(inside, image, &[])?;
        Ok(done)
    }

    /// Gives the body the guests' filter, and the warden its listener; with the last calls of the
    /// batch.
    fn confine(&self, inside: &mut Inside, mut batch: Batch, pid: i32) -> Result<(), BodyError> {
        let shown = self.room.guests().show_all(pid);
        let place = filters(&mut batch, &shown, self.room.wall.get().is_some());
        let listener = inside.run(&batch)?.get(place).copied().unwrap_or(-1) as i32;
        self.listeners.add(inside.tid(), listener)?;
        inside.must("closing the filter's listener", libc::SYS_close, [listener as u64, 0, 0, 0, 0, 0])?;
        Ok(())
    }

    /// As [`Tracer::confine`], long before the program runs, for the kernel takes as long for it as
    /// for all that is left to be done when it stands still: until then the filter sees no calls.
    /// False: it cannot be kept from that.
    fn confine_early(&self, inside: &mut Inside, pid: i32) -> Result<bool, BodyError> {
        let may = inside.is_unfiltered();
        if may {
            self.confine(inside, inside.batch(), pid)?;
        }
        Ok(may)
    }

    /// Lays out the memory of an empty process, and makes all of it that is known before the image
    /// is.
    fn map(&self, mut stopped: Stopped, image: Arc<Image>, arrival: Arrival) -> Result<MappedBody, BodyError> {
        os::fault::at("map there")?;
        let host = stopped.tid();
        let areas = os::areas::read(host.0)?;
        let memory = Memory::of(host.0)?;
        let gate = os::inject::gate(&memory, &areas)?;
        let taken = areas.iter().map(|a| (a.start, a.end)).chain(image.areas.iter().map(|a| (a.start, a.end)));
        let region = checkpoint::free_place(taken)?;
        let rseq = stopped.rseq()?;
        stopped.suspend_filters()?;
        let mut inside = Inside::enter(stopped, memory, gate)?;
        let _together = Together::with(host.0);
        inside.map_region(region)?;
        checkpoint::forget(&mut inside, image::Rseq { area: rseq.area, bytes: rseq.bytes, signature: rseq.signature })?;
        let mut given = given(&arrival);
        let above = arrival.files_at + arrival.files.len() as i32;
        let theirs = give_known(&mut inside, above, &self.arriving.groups.known(image.process.pid))?;
        given.objects = make_objects(&mut inside, &image, above, &theirs)?;
        open_written(&mut inside, &Image::default(), &image, &given)?;
        lay_out(&self.room, &mut inside, &image, &given, PrelaidMemory { region, areas: &[] })?;
        given.windows = memories(&mut inside, &image, &given, KnownMemories { above, theirs: &theirs })?;
        checkpoint::reset_actions(&mut inside)?;
        let confined = self.confine_early(&mut inside, image.process.pid)?;
        let descriptors = os::process::descriptors(host.0)?;
        let shell = Shell { inside, descriptors, kept: rights::kept(arrival.capabilities), confined };
        Ok(MappedBody { arrival, given, shell: Box::new(shell), image })
    }

    /// Home has decided: the body runs.
    pub fn resume_arrived(&mut self, pid: i32) -> bool {
        let Some(threads) = self.arriving.take_standing(pid) else { return false };
        os::fault::past("resume there");
        self.bodies.came(pid);
        self.room.guests().runs(pid);
        let here_ns = os::namespace::clock_ns(libc::CLOCK_MONOTONIC);
        for thread in threads {
            if let Err(TraceError::Failed(e)) = thread.resume(0) {
                tracing::error!("{e}");
            }
        }
        let since_ns = here_ns + self.room.home_ahead_ns.get().copied().unwrap_or_default();
        self.room.tell(&ToHome::Runs { pid, since_ns });
        self.early_signals(pid);
        true
    }
}

fn given(arrival: &Arrival) -> Given {
    let files = (arrival.files_at..).take(arrival.files.len()).collect();
    Given { files, ..Given::default() }
}

/// Makes its objects, if this kernel will tell all of them when it leaves.
fn make_objects(inside: &mut Inside, image: &Image, above: i32, theirs: &[Option<i32>]) -> Result<Vec<i32>, BodyError> {
    let is_semaphore = |made: &image::Made| matches!(made.object, Object::Counter { semaphore: true, .. });
    if image.objects.made.iter().any(is_semaphore) && !os::objects::tells_semaphores() {
        let why = "it has a semaphore (eventfd), which this kernel does not tell from a counter (Linux 6.5 does)";
        return Err(BodyError::NotMigratable(why.into()));
    }
    checkpoint::make_objects(inside, image, Some(above), theirs)
}

/// The content of an empty process' memory before it is laid out.
struct PrelaidMemory<'a> {
    /// The address of the region through which the tracer makes calls inside.
    region: u64,
    /// Areas that were laid out for an earlier image.
    areas: &'a [Area],
}

/// Maps the memory of a process. Where guests may not use this kernel's code, a copy of home's
/// takes its place. Areas that lie there and are the same in the image stay, with their pages: the
/// sender reckons with that ([`checkpoint::changes`]).
fn lay_out(
    room: &Shared,
    inside: &mut Inside,
    image: &Image,
    given: &Given,
    there: PrelaidMemory<'_>,
) -> Result<(), BodyError> {
    let (host, home, strange) = (inside.tid(), image.process.vdso, room.strange.get());
    room.guests().get_mut(image.process.pid).into_iter().for_each(|guest| guest.without_vdso = home.is_none());
    let existing = checkpoint::Existing { kept: &[], prelaid: there.areas };
    if strange.is_none() && home.is_some() {
        return checkpoint::map_memory(host.0, inside, image, given, existing);
    }
    let taken = image.areas.iter().map(|a| (a.start, a.end)).chain(home.map(|v| (v.start, v.end)));
    let free = checkpoint::free_place(taken.chain([(there.region, there.region + REGION_BYTES)]))?;
    checkpoint::map_memory(host.0, inside, &checkpoint::laid_out_with_foreign_vdso(image, free), given, existing)?;
    if let (Some(strange), Some(home)) = (strange, home) {
        strange.write(inside.memory(), home)?;
        room.guests().get_mut(image.process.pid).into_iter().for_each(|guest| guest.vdso = Some(home));
    }
    Ok(())
}

/// Puts memories that another body has brought into an empty process, above number `above`. Gives
/// their numbers there.
fn give_known(inside: &mut Inside, above: i32, known: &[Option<&OwnedFd>]) -> Result<Vec<Option<i32>>, BodyError> {
    let files: Vec<_> = known.iter().copied().flatten().map(AsFd::as_fd).collect();
    let given = checkpoint::give(inside, &PidFd::open(inside.tid().0)?, &files)?;
    let mut numbers = checkpoint::move_up(inside, &given, above)?.into_iter();
    Ok(known.iter().map(|file| file.and_then(|_| numbers.next())).collect())
}

/// Makes what was laid out for an earlier image fit a later one of the same process. The earlier
/// image, of a process that ran, had no objects. `known`: memories that another body has brought.
fn relayout(
    room: &Shared,
    mapped: MappedBody,
    image: Arc<Image>,
    known: &[Option<&OwnedFd>],
) -> Result<MappedBody, BodyError> {
    let MappedBody { arrival, mut given, mut shell, image: old } = mapped;
    let inside = &mut shell.inside;
    let above = arrival.files_at + arrival.files.len() as i32;
    let theirs = give_known(inside, above, known)?;
    if given.objects.is_empty() {
        given.objects = make_objects(inside, &image, above, &theirs)?;
    }
    open_written(inside, &old, &image, &given)?;
    match inside.region().filter(|_| old.process.vdso != image.process.vdso) {
        // It runs another program: the kernel's pages lie elsewhere, too.
        Some(region) => lay_out(room, inside, &image, &given, PrelaidMemory { region, areas: &old.areas })?,
        None => checkpoint::relayout_memory(inside, &old.areas, &image, &given)?,
    }
    given.windows = memories(inside, &image, &given, KnownMemories { above, theirs: &theirs })?;
    if !given.objects.is_empty() {
        shell.descriptors = os::process::descriptors(inside.tid().0)?;
    }
    Ok(MappedBody { arrival, given, shell, image })
}

/// Opens what the image's descriptors and shared areas write to, which it has only by name, if an
/// `old` image had neither: the process stands still now, and closes nothing.
fn open_written(inside: &mut Inside, old: &Image, image: &Image, given: &Given) -> Result<(), BodyError> {
    let places = image.descriptors.iter().filter_map(|d| match d.opened {
        Opened::File { file, .. } => Some(file),
        _ => None,
    });
    let written = |place: &u32| image.files.get(*place as usize).is_some_and(checkpoint::is_written);
    let mapped = |image: &Image| {
        let shown = image.areas.iter().filter(|area| area.shared).filter_map(|area| match area.content {
            image::Content::File { file, .. } => Some(file),
            _ => None,
        });
        shown.filter(written).collect::<BTreeSet<u32>>()
    };
    let had = !old.descriptors.is_empty() || !mapped(old).is_empty();
    let written: BTreeSet<u32> = places.filter(written).chain(mapped(image)).collect();
    if had || written.is_empty() {
        return Ok(());
    }
    let mut batch = inside.batch();
    for place in &written {
        let flags = image.files.get(*place as usize).map_or(0, |file| file.flags) | libc::O_CLOEXEC | libc::O_NOCTTY;
        let name = batch.put(format!("/proc/self/fd/{}\0", given.file(*place)).as_bytes());
        let args = [libc::AT_FDCWD as u64, name, flags as u64, 0, 0, 0];
        batch.must("opening a file that it writes to", libc::SYS_openat, args);
    }
    let opened = inside.run(&batch)?;
    let mut batch = inside.batch();
    for (place, fd) in written.iter().zip(opened) {
        let args = [fd as u64, given.file(*place) as u64, libc::O_CLOEXEC as u64, 0, 0, 0];
        batch.must("placing a descriptor", libc::SYS_dup3, args);
        batch.must("closing a descriptor", libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    inside.run(&batch)?;
    Ok(())
}

/// Memories that another body has brought.
struct KnownMemories<'a> {
    /// The lowest number for descriptors of memories.
    above: i32,
    /// Their descriptors, by index.
    theirs: &'a [Option<i32>],
}

/// Makes the image's memories, empty, but for those that are here already.
fn memories(
    inside: &mut Inside,
    image: &Image,
    given: &Given,
    known: KnownMemories<'_>,
) -> Result<Vec<Window>, BodyError> {
    if image.objects.memories.is_empty() {
        return Ok(Vec::new());
    }
    let own = os::areas::read(inside.tid().0)?.into_iter().map(|a| (a.start, a.end));
    let taken = own.chain(image.areas.iter().map(|a| (a.start, a.end))).collect();
    let KnownMemories { above, theirs } = known;
    checkpoint::make_memories(inside, image, given, checkpoint::Placement { taken, lowest_fd: above, theirs })
}

/// The size of what statx(2) writes.
const STATX_BYTES: usize = 256;

/// Descriptors at their numbers: stand-ins are there already; files were opened further up, and are
/// closed there.
fn set_descriptors(there: &[i32], batch: &mut Batch, image: &Image, arrival: &Arrival, given: &Given) {
    let (seen, empty) = (batch.space(STATX_BYTES), batch.put(&[0]));
    for descriptor in &image.descriptors {
        let fd = descriptor.fd as u64;
        match descriptor.opened {
            Opened::File { file, offset } => {
                let from = arrival.files_at as u64 + u64::from(file);
                let flags = if descriptor.close_on_exec { libc::O_CLOEXEC as u64 } else { 0 };
                batch.must("placing a descriptor", libc::SYS_dup3, [from, fd, flags, 0, 0, 0]);
                // Directories and devices may have no offset to set.
                batch.may(libc::SYS_lseek, [fd, offset, libc::SEEK_SET as u64, 0, 0, 0]);
                // It was opened while the process still wrote to it elsewhere: this kernel would
                // append where it took the end to be then, and say so.
                if image.files.get(file as usize).is_some_and(checkpoint::is_written) {
                    let flags = libc::AT_EMPTY_PATH as u64;
                    batch.may(libc::SYS_statx, [fd, empty, flags, u64::from(libc::STATX_SIZE), seen, 0]);
                }
            }
            Opened::Made(object) => {
                let from = given.object(object) as u64;
                let flags = if descriptor.close_on_exec { libc::O_CLOEXEC as u64 } else { 0 };
                batch.must("placing a descriptor", libc::SYS_dup3, [from, fd, flags, 0, 0, 0]);
            }
            Opened::Home(_) => {
                let flags = if descriptor.close_on_exec { libc::FD_CLOEXEC as u64 } else { 0 };
                batch.must("placing a stand-in", libc::SYS_fcntl, [fd, libc::F_SETFD as u64, flags, 0, 0, 0]);
            }
        }
    }
    let kept: HashSet<i32> = image.descriptors.iter().map(|d| d.fd).collect();
    for fd in there.iter().filter(|fd| !kept.contains(fd)) {
        batch.must("closing what was the porter's", libc::SYS_close, [*fd as u64, 0, 0, 0, 0, 0]);
    }
}

/// All others are given up. Each thread has its own.
fn give_up_capabilities(batch: &mut Batch, kept: Capabilities) {
    let (head, data) = os::namespace::capabilities(rights::sets(kept));
    let (head, data) = (batch.put(&words(&head)), batch.put(&words(&data)));
    batch.must("giving up capabilities", libc::SYS_capset, [head, data, 0, 0, 0, 0]);
    for args in rights::raising(kept.ambient) {
        batch.may(libc::SYS_prctl, args);
    }
}

/// A filter as it lies in memory.
fn instructions(filter: &[systable::filter::Insn]) -> Vec<u8> {
    let bytes = |i: &systable::filter::Insn| [&i.code.to_le_bytes()[..], &[i.jt, i.jf], &i.k.to_le_bytes()].concat();
    filter.iter().flat_map(bytes).collect()
}

/// The filter, for all threads, behind those for descriptors that are shown; the place of the
/// result that is the number of its listener.
fn filters(batch: &mut Batch, shown: &[Vec<u8>], wall: bool) -> usize {
    for program in shown {
        let at = batch.put(program);
        let head = batch.put(&crate::supervisor::tracer::fstat_filters::head(program, at));
        let (nr, args) = os::seccomp::install_more_call(head);
        batch.must("showing descriptors", nr, args);
    }
    let (cpu_times, devices) = (systable::filter::cpu_times(), systable::filter::devices());
    for (doing, filter) in
        [("having its clocks completed", &cpu_times[..]), ("having home's device numbers put in", &devices[..])]
    {
        let at = batch.put(&instructions(filter));
        let program = batch.put(&[(filter.len() as u64).to_le_bytes(), at.to_le_bytes()].concat());
        let (nr, args) = os::seccomp::install_more_call(program);
        batch.must(doing, nr, args);
    }
    let view = if wall { View::HomeAndWall } else { View::Home };
    let program: Vec<u8> = filter(view)
        .iter()
        .flat_map(|i| [&i.code.to_le_bytes()[..], &[i.jt, i.jf], &i.k.to_le_bytes()].concat())
        .collect();
    let instructions = batch.put(&program);
    // `struct sock_fprog`: count, then address.
    let count = (program.len() / size_of::<os::seccomp::Instruction>()) as u64;
    let program = batch.put(&[count.to_le_bytes(), instructions.to_le_bytes()].concat());
    let install = os::seccomp::install_call(program);
    batch.must("installing the filter", install.0, install.1)
}

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|w| w.to_le_bytes()).collect()
}
