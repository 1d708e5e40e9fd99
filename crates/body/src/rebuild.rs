//! From an image to a process: its memory laid out, its signals, timers and registers set.

use crate::collect::{registers, stack_bytes};
use crate::error::{BodyError, stays};
use crate::memories::Window;
use crate::odd;
use crate::pages::Run;
use crate::relayout::changes;
use image::{Area, Content, Image, Layout, Thread, Vdso};
use os::areas;
use os::inject::{Batch, Inside, REGION_BYTES, gate};
use os::processor::Together;
use os::ptrace::{HostTid, Stopped};

/// Where regions for injected calls may lie: far from where kernels put things and from what sanitizers and runtimes reserve.
const PLACES: std::ops::Range<u64> = 0x1234..0x1634;
const PLACE_SHIFT: u32 = 32;

/// A free place for a region, in all of these areas' gaps.
pub fn free_place(taken: impl Iterator<Item = (u64, u64)>) -> Result<u64, BodyError> {
    free_place_for(REGION_BYTES, taken)
}

/// As [`free_place`], for so many bytes.
pub fn free_place_for(bytes: u64, taken: impl Iterator<Item = (u64, u64)>) -> Result<u64, BodyError> {
    let taken: Vec<(u64, u64)> = taken.collect();
    let mut places = PLACES.map(|p| p << PLACE_SHIFT);
    let free = places.find(|at| taken.iter().all(|(start, end)| *end <= *at || at + bytes <= *start));
    free.map_or_else(|| stays("its memory leaves no place for injected calls"), Ok)
}

/// What the process that is to become the image's has been given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Where it has the image's files open.
    pub files: Vec<i32>,
    /// Where it has its objects.
    pub objects: Vec<i32>,
    /// Where it has its memories.
    pub windows: Vec<Window>,
}

impl Given {
    /// Where it has this file open; -1 if nowhere.
    pub fn file(&self, place: u32) -> i32 {
        self.files.get(place as usize).copied().unwrap_or(-1)
    }

    /// Where it has this object; -1 if nowhere.
    pub fn object(&self, place: u32) -> i32 {
        self.objects.get(place as usize).copied().unwrap_or(-1)
    }
}

/// What no program maps (vm.mmap_min_addr).
const LOWEST: u64 = 0x10000;
const TOP: u64 = 0x7fff_ffff_f000;
/// prctl(2), arch_prctl(2)
const ARCH_MAP_VDSO_64: u64 = 0x2003;
const PR_SET_NAME: u64 = 15;
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;
const MASK_BYTES: u64 = 8;
const SIGNALS: u64 = 64;

/// Unmaps everything but the region and `kept` (ascending).
pub fn unmap_all_but(inside: &mut Inside, kept: &[(u64, u64)]) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    unmap(&mut batch, &all_kept(inside, kept)?);
    inside.run(&batch)?;
    Ok(())
}

fn all_kept(inside: &Inside, kept: &[(u64, u64)]) -> Result<Vec<(u64, u64)>, BodyError> {
    let Some(region) = inside.region() else { return stays("no region is mapped") };
    let mut all = kept.to_vec();
    all.push((region, region + REGION_BYTES));
    all.sort_unstable();
    Ok(all)
}

fn unmap(batch: &mut Batch, kept: &[(u64, u64)]) {
    let mut from = LOWEST;
    for (start, end) in kept.iter().copied().chain([(TOP, TOP)]) {
        if from < start {
            batch.must("unmapping", libc::SYS_munmap, [from, start - from, 0, 0, 0, 0]);
        }
        from = end;
    }
}

/// Replaces the memory of the process by the image's areas, all but the region and `kept` (ascending). What of `ahead` ([`map_beside`]) is the same in the image stays, with its
/// pages; the other pages are the caller's to write.
pub fn map_memory(
    pid: i32,
    inside: &mut Inside,
    image: &Image,
    given: &Given,
    (kept, ahead): (&[(u64, u64)], &[Area]),
) -> Result<(), BodyError> {
    let changes = changes(ahead, &image.areas);
    let kept = all_kept(inside, &[kept, &changes.kept].concat())?;
    let clash = |a: &Area| kept.iter().any(|(start, end)| a.start < *end && *start < a.end);
    if let Some(area) = changes.fresh.iter().find(|a| clash(a)) {
        return stays(format!("its memory at {:#x} lies where tern's own must be", area.start));
    }
    let mut batch = inside.batch();
    unmap(&mut batch, &kept);
    for (start, end) in &changes.kept {
        inherit(&mut batch, (*start, *end), image);
    }
    if let Some(vdso) = image.process.vdso {
        batch.must("mapping the kernel's pages", libc::SYS_arch_prctl, [ARCH_MAP_VDSO_64, vdso.start, 0, 0, 0, 0]);
        if vdso.code == vdso.end {
            inside.run(&batch)?;
            batch = inside.batch();
            unmap_code(pid, &mut batch)?;
        }
    }
    for area in &changes.fresh {
        map(&mut batch, area, given);
    }
    inside.run(&batch)?;
    let found = areas::read(pid)?;
    inside.set_gate(gate(inside.memory(), &found)?);
    image.process.vdso.map_or(Ok(()), |wanted| check_vdso(&found, wanted))
}

/// Lays anonymous areas out beside what the process has, which runs on: its children do not get them. All or none.
pub fn map_beside(inside: &mut Inside, areas: &[Area]) -> Result<(), BodyError> {
    for (done, area) in areas.iter().enumerate() {
        let mut batch = inside.batch();
        map(&mut batch, area, &Given::default());
        let dont_fork = libc::MADV_DONTFORK as u64;
        batch.must(
            "hiding memory from children",
            libc::SYS_madvise,
            [area.start, area.end - area.start, dont_fork, 0, 0, 0],
        );
        if let Err(e) = inside.run(&batch) {
            unmap_beside(inside, &areas[..done])?;
            return Err(e.into());
        }
    }
    Ok(())
}

/// Takes them away again.
pub fn unmap_beside(inside: &mut Inside, areas: &[Area]) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    for area in areas {
        batch.must("unmapping", libc::SYS_munmap, [area.start, area.end - area.start, 0, 0, 0, 0]);
    }
    inside.run(&batch)?;
    Ok(())
}

/// The program's children get this again that was laid out beside, if they shall.
fn inherit(batch: &mut Batch, (start, end): (u64, u64), image: &Image) {
    let area = image.areas.iter().find(|a| a.start <= start && start < a.end);
    if !area.is_some_and(|a| a.advice.contains(&(libc::MADV_DONTFORK as u8))) {
        let args = [start, end - start, libc::MADV_DOFORK as u64, 0, 0, 0];
        batch.must("showing memory to children", libc::SYS_madvise, args);
    }
}

/// Makes memory that was laid out for an earlier image fit a later one. What differs is empty then.
pub fn relayout_memory(inside: &mut Inside, old: &[Area], image: &Image, given: &Given) -> Result<(), BodyError> {
    let changes = changes(old, &image.areas);
    let mut batch = inside.batch();
    for (start, end) in changes.gone {
        batch.must("unmapping", libc::SYS_munmap, [start, end - start, 0, 0, 0, 0]);
    }
    for area in &changes.fresh {
        map(&mut batch, area, given);
    }
    if !batch.is_empty() {
        inside.run(&batch)?;
    }
    Ok(())
}

/// Pages that were sent, and have been given back to the kernel since.
pub fn discard(inside: &mut Inside, runs: &[Run]) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    for (at, bytes) in runs {
        batch.must("discarding pages", libc::SYS_madvise, [*at, *bytes, libc::MADV_DONTNEED as u64, 0, 0, 0]);
    }
    if !batch.is_empty() {
        inside.run(&batch)?;
    }
    Ok(())
}

/// linux/mman.h, since 6.11.
const MAP_DROPPABLE: i32 = 0x08;

pub(crate) fn map(batch: &mut Batch, area: &Area, given: &Given) {
    let kind = match area {
        Area { shared: true, .. } => libc::MAP_SHARED,
        Area { droppable: true, .. } => MAP_DROPPABLE,
        _ => libc::MAP_PRIVATE,
    };
    let mut flags = libc::MAP_FIXED_NOREPLACE | kind;
    // Not MAP_STACK, by which the kernel would keep huge pages out of it (since 6.7), which it did not say of the original.
    for (on, flag) in [(area.grows_down, libc::MAP_GROWSDOWN), (area.no_reserve, libc::MAP_NORESERVE)] {
        flags |= if on { flag } else { 0 };
    }
    let (fd, offset) = match area.content {
        Content::Anonymous => {
            flags |= libc::MAP_ANONYMOUS;
            (-1i64, 0)
        }
        Content::File { file, offset } => (i64::from(given.file(file)), offset),
        // Those are mapped when their content is there (crate::memories).
        Content::Memory { .. } => return,
    };
    let bytes = area.end - area.start;
    let protection = u64::from(area.protection);
    // What was writable once is mapped so, and then protected: the kernel counts it.
    let was_writable = area.accounted && !area.shared && protection & libc::PROT_WRITE as u64 == 0;
    // The kernel would take a key for what can only be executed: one of the program's, perhaps.
    let has_key = area.key != 0 && protection == libc::PROT_EXEC as u64;
    let protection = if has_key { libc::PROT_NONE as u64 } else { protection };
    let first = protection | if was_writable { libc::PROT_WRITE as u64 } else { 0 };
    batch.must("mapping memory", libc::SYS_mmap, [area.start, bytes, first, flags as u64, fd as u64, offset]);
    if was_writable {
        batch.must("protecting memory", libc::SYS_mprotect, [area.start, bytes, protection, 0, 0, 0]);
    }
    advise(batch, area);
}

/// What the program has said of an area.
pub fn advise(batch: &mut Batch, area: &Area) {
    let bytes = area.end - area.start;
    for advice in area.advice.iter().filter(|a| **a != 0) {
        batch.may(libc::SYS_madvise, [area.start, bytes, u64::from(*advice), 0, 0, 0]);
    }
    if area.locked {
        // What may be locked is the hosting node's to say.
        batch.may(libc::SYS_mlock, [area.start, bytes, 0, 0, 0, 0]);
    }
}

/// A program that has the vDSO's data has unmapped its code.
fn unmap_code(pid: i32, batch: &mut Batch) -> Result<(), BodyError> {
    for code in areas::read(pid)?.iter().filter(|a| a.name == b"[vdso]") {
        batch.must("unmapping the vDSO's code", libc::SYS_munmap, [code.start, code.end - code.start, 0, 0, 0, 0]);
    }
    Ok(())
}

fn check_vdso(found: &[areas::Area], wanted: Vdso) -> Result<(), BodyError> {
    let kernels = |a: &&areas::Area| [&b"[vvar]"[..], b"[vvar_vclock]", b"[vdso]"].contains(&a.name.as_slice());
    let start = found.iter().filter(kernels).map(|a| a.start).min();
    let code = found.iter().find(|a| a.name == b"[vdso]").map(|a| (a.start, a.end));
    let wanted_code = (wanted.code < wanted.end).then_some((wanted.code, wanted.end));
    if start == Some(wanted.start) && code == wanted_code {
        return Ok(());
    }
    stays("this kernel's vDSO is laid out differently from that of the kernel where the process started")
}

/// What a signal does before any program has said: `struct sigaction` of the kernel.
const DEFAULT_ACTION: [u64; 4] = [0; 4];

/// No signal is handled, or ignored.
pub fn reset_actions(inside: &mut Inside) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    set_actions(&mut batch, (1..=SIGNALS).map(|signal| (signal, &DEFAULT_ACTION)));
    inside.run(&batch)?;
    Ok(())
}

fn set_actions<'a>(batch: &mut Batch, actions: impl Iterator<Item = (u64, &'a [u64; 4])>) {
    let settable = |signal: u64| signal != libc::SIGKILL as u64 && signal != libc::SIGSTOP as u64;
    for (signal, action) in actions.filter(|(signal, _)| settable(*signal)) {
        let at = batch.put(&action.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
        batch.must("setting signal actions", libc::SYS_rt_sigaction, [signal, at, 0, MASK_BYTES, 0, 0]);
    }
}

/// Sets what the threads share: signal actions, timers, where things lie. `handles`: it may handle signals otherwise ([`reset_actions`] was not called).
pub fn set_process(batch: &mut Batch, image: &Image, given: &Given, handles: bool) {
    let process = &image.process;
    let actions = (1..).zip(&process.actions);
    set_actions(batch, actions.filter(|(_, action)| handles || **action != DEFAULT_ACTION));
    let auxv = batch.put(&process.auxv);
    let exe = process.exe.map(|file| given.file(file)).filter(|fd| *fd >= 0);
    for exe in exe.into_iter().chain([-1]) {
        let map = batch.put(&layout_bytes(&process.layout, auxv, process.auxv.len() as u32, exe));
        let args = [PR_SET_MM, PR_SET_MM_MAP, map, LAYOUT_BYTES, 0, 0];
        // The kernel may refuse the file; the rest must succeed without it.
        if exe < 0 {
            batch.must("setting where things lie in memory", libc::SYS_prctl, args);
        } else {
            batch.may(libc::SYS_prctl, args);
        }
    }
    for (set, value) in &process.settings {
        batch.may(libc::SYS_prctl, [u64::from(*set), *value, 0, 0, 0, 0]);
    }
    odd::set_process(batch, process);
    for (start, end) in &process.guards {
        batch.may(libc::SYS_madvise, [*start, end - start, os::pages::MADV_GUARD_INSTALL as u64, 0, 0, 0]);
    }
    batch.may(libc::SYS_umask, [u64::from(process.umask), 0, 0, 0, 0, 0]);
    for (which, timer) in (0..).zip(&process.itimers) {
        if timer[2..] != [0, 0] {
            let at = batch.put(&timer.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
            batch.must("setting timers", libc::SYS_setitimer, [which, at, 0, 0, 0, 0]);
        }
    }
}

const LAYOUT_BYTES: u64 = 104;

/// `struct prctl_mm_map` (linux/prctl.h)
fn layout_bytes(l: &Layout, auxv: u64, auxv_bytes: u32, exe: i32) -> Vec<u8> {
    let words = [
        l.start_code,
        l.end_code,
        l.start_data,
        l.end_data,
        l.start_brk,
        l.brk,
        l.start_stack,
        l.arg_start,
        l.arg_end,
        l.env_start,
        l.env_end,
        auxv,
    ];
    let mut out: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    out.extend(auxv_bytes.to_le_bytes());
    out.extend(exe.to_le_bytes());
    out
}

/// Has a thread away from home give way as it does at home, where its nice value is kept; none is served before its host's own programs.
pub fn give_way(batch: &mut Batch, thread: &Thread) {
    // Who was niced elsewhere need not have the right to be so little nice here.
    let nice = i64::from(thread.nice.max(0)) as u64;
    batch.may(libc::SYS_setpriority, [libc::PRIO_PROCESS as u64, 0, nice, 0, 0, 0]);
}

/// Sets what is a thread's own, and leaves it stopped where the image says. The calls go behind those of the `batch`; `last` adds the ones to be made last, and makes all, before
/// the region goes (with the first thread): each batch is a way there and back.
pub fn finish(
    mut inside: Inside,
    mut batch: Batch,
    thread: &Thread,
    first: bool,
    last: impl FnOnce(&mut Inside, Batch) -> Result<(), BodyError>,
) -> Result<Stopped, BodyError> {
    let together = Together::with(inside.tid().0);
    let name = batch.put(&[thread.comm.as_slice(), &[0]].concat());
    batch.may(libc::SYS_prctl, [PR_SET_NAME, name, 0, 0, 0, 0]);
    batch.must("setting the thread's address", libc::SYS_set_tid_address, [thread.clear_tid, 0, 0, 0, 0, 0]);
    if thread.slack_ns > 0 {
        batch.may(libc::SYS_prctl, [libc::PR_SET_TIMERSLACK as u64, thread.slack_ns, 0, 0, 0, 0]);
    }
    if thread.robust.0 != 0 {
        let args = [thread.robust.0, thread.robust.1, 0, 0, 0, 0];
        batch.must("setting robust futexes", libc::SYS_set_robust_list, args);
    }
    let stack = batch.put(&stack_bytes(thread.stack));
    batch.must("setting the signal stack", libc::SYS_sigaltstack, [stack, 0, 0, 0, 0, 0]);
    let rseq = thread.rseq;
    if rseq.area != 0 {
        let args = [rseq.area, u64::from(rseq.bytes), 0, u64::from(rseq.signature), 0, 0];
        batch.must("registering restartable sequences", libc::SYS_rseq, args);
    }
    odd::set_thread(&mut batch, &thread.settings);
    batch.must("setting its personality", libc::SYS_personality, [u64::from(thread.personality), 0, 0, 0, 0, 0]);
    last(&mut inside, batch)?;
    if first {
        inside.unmap_region()?;
    }
    // Before it gets the processors that it has chosen.
    drop(together);
    schedule(inside.tid(), thread);
    let registers = registers(&thread.registers);
    let mut stopped = inside.leave(&registers, if thread.enters_call { u64::MAX } else { thread.mask })?;
    if !thread.extended.is_empty() {
        stopped.set_extended_state(&thread.extended)?;
    }
    if thread.enters_call {
        stopped = stopped.make_call_again()?;
        stopped.set_mask(thread.mask)?;
    }
    Ok(stopped)
}

/// As it was, as far as this node goes along.
fn schedule(host: HostTid, thread: &Thread) {
    let policy = os::scheduling::set_policy(host.0, thread.policy);
    for refused in
        [policy, os::scheduling::set_io_priority(host.0, thread.io_priority)].into_iter().filter_map(Result::err)
    {
        tracing::debug!("{refused}");
    }
    if thread.processors.is_some() {
        os::processor::choose(host.0, thread.processors.as_deref());
    }
}

/// What a signal carries.
type Info = [u8; INFO_BYTES];
const INFO_BYTES: usize = 128;

/// Signals that waited for the process are sent again, from its first thread: so they carry what they carried. `more` came since.
pub fn requeue(inside: &mut Inside, image: &Image, more: &[Info]) -> Result<(), BodyError> {
    let pid = image.process.pid as u64;
    let all: Vec<&[u8]> =
        image.process.pending.iter().map(Vec::as_slice).chain(more.iter().map(Info::as_slice)).collect();
    queue(inside, &all, |batch, signal, at| batch.may(libc::SYS_rt_sigqueueinfo, [pid, signal, at, 0, 0, 0]))
}

/// The same, of those that waited for one thread, which sends them itself: the kernel believes nobody else what they carry.
pub fn requeue_own(
    inside: &mut Inside,
    image: &Image,
    thread: &Thread,
    more: &[(Option<i32>, Info)],
) -> Result<(), BodyError> {
    let (pid, tid) = (image.process.pid as u64, thread.tid as u64);
    let since = more.iter().filter(|(of, _)| *of == Some(thread.tid)).map(|(_, info)| info.as_slice());
    let all: Vec<&[u8]> = thread.pending.iter().map(Vec::as_slice).chain(since).collect();
    queue(inside, &all, |batch, signal, at| batch.may(libc::SYS_rt_tgsigqueueinfo, [pid, tid, signal, at, 0, 0]))
}

fn queue(inside: &mut Inside, all: &[&[u8]], send: impl Fn(&mut Batch, u64, u64) -> usize) -> Result<(), BodyError> {
    let number = |info: &[u8]| i32::from(info.first().copied().unwrap_or(0));
    if all.iter().any(|info| number(info) == libc::SIGTRAP) {
        inside.be_quiet()?;
    }
    let mut batch = inside.batch();
    for info in all {
        if batch.room() < info.len() {
            inside.run(&batch)?;
            batch = inside.batch();
        }
        let at = batch.put(info);
        send(&mut batch, number(info) as u64, at);
    }
    inside.run(&batch)?;
    Ok(())
}

/// Takes as many of each signal as are among these, which wait for the thread or its process.
pub fn take<'a>(inside: &mut Inside, signals: impl Iterator<Item = &'a Vec<u8>>) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    let at_once = batch.put(&[0; 16]);
    for signal in signals.filter_map(|info| info.first()).filter(|signal| (1..=SIGNALS as u8).contains(signal)) {
        let set = batch.put(&(1u64 << (signal - 1)).to_le_bytes());
        batch.may(libc::SYS_rt_sigtimedwait, [set, 0, at_once, MASK_BYTES, 0, 0]);
        if batch.room() < size_of::<u64>() {
            inside.run(&batch)?;
            batch = inside.batch();
        }
    }
    inside.run(&batch)?;
    Ok(())
}
