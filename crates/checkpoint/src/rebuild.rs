//! Restoring a process from an image: its memory layout, signals, timers and registers.

use crate::error::{BodyError, stays};
use crate::memories::Window;
use crate::pages::Run;
use crate::rare_state;
use crate::relayout::changes;
use crate::thread_words::{registers, stack_bytes};
use image::{Area, Content, Image, Layout, Thread, Vdso};
use os::areas;
use os::inject::{Batch, Inside, REGION_BYTES, gate};
use os::processor::Together;
use os::ptrace::{HostTid, Stopped};

/// Places for the regions of injected calls, far from where kernels put mappings and from what
/// sanitizers and runtimes reserve.
const PLACES: std::ops::Range<u64> = 0x1234..0x1634;
const PLACE_SHIFT: u32 = 32;

/// Finds a free place for a region, outside of all these ranges.
pub fn free_place(taken: impl Iterator<Item = (u64, u64)>) -> Result<u64, BodyError> {
    free_place_for(REGION_BYTES, taken)
}

/// Finds a free place of this size.
pub fn free_place_for(bytes: u64, taken: impl Iterator<Item = (u64, u64)>) -> Result<u64, BodyError> {
    let taken: Vec<(u64, u64)> = taken.collect();
    let mut places = PLACES.map(|p| p << PLACE_SHIFT);
    let free = places.find(|at| taken.iter().all(|(start, end)| *end <= *at || at + bytes <= *start));
    free.map_or_else(|| stays("its memory leaves no place for injected calls"), Ok)
}

/// The files, objects and memories that a process to be restored has been given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Descriptors of the image's files.
    pub files: Vec<i32>,
    /// Descriptors of the image's objects.
    pub objects: Vec<i32>,
    /// Places of the image's memories.
    pub windows: Vec<Window>,
}

impl Given {
    /// Gives the descriptor of a file; -1 if there is none.
    pub fn file(&self, place: u32) -> i32 {
        self.files.get(place as usize).copied().unwrap_or(-1)
    }

    /// Gives the descriptor of an object; -1 if there is none.
    pub fn object(&self, place: u32) -> i32 {
        self.objects.get(place as usize).copied().unwrap_or(-1)
    }
}

/// The lowest address that programs map (vm.mmap_min_addr).
const LOWEST: u64 = 0x10000;
const TOP: u64 = 0x7fff_ffff_f000;
/// Operations of prctl(2) and arch_prctl(2).
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

/// Memory of a process that [`map_memory`] does not replace.
#[derive(Clone, Copy, Default)]
pub struct Existing<'a> {
    /// Ranges that stay, ascending.
    pub kept: &'a [(u64, u64)],
    /// Areas that were mapped while the process ran elsewhere ([`map_beside`]). Those that are the
    /// same in the image stay, with their pages.
    pub prelaid: &'a [Area],
}

/// Replaces the memory of the process by the image's areas, except for the region and for what
/// `existing` keeps. The caller writes the other pages.
pub fn map_memory(
    pid: i32,
    inside: &mut Inside,
    image: &Image,
    given: &Given,
    existing: Existing<'_>,
) -> Result<(), BodyError> {
    let changes = changes(existing.prelaid, &image.areas);
    let kept = all_kept(inside, &[existing.kept, &changes.kept].concat())?;
    let clash = |a: &Area| kept.iter().any(|(start, end)| a.start < *end && *start < a.end);
    if let Some(area) = changes.fresh.iter().find(|a| clash(a)) {
        return stays(format!("its memory at {:#x} lies where tern needs memory of its own", area.start));
    }
    let mut batch = inside.batch();
    unmap(&mut batch, &kept);
    for (start, end) in &changes.kept {
        inherit(&mut batch, *start, *end, image);
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

/// Maps anonymous areas beside the present memory of a running process, all or none. Its children
/// do not inherit them.
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

/// Unmaps areas that [`map_beside`] has mapped.
pub fn unmap_beside(inside: &mut Inside, areas: &[Area]) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    for area in areas {
        batch.must("unmapping", libc::SYS_munmap, [area.start, area.end - area.start, 0, 0, 0, 0]);
    }
    inside.run(&batch)?;
    Ok(())
}

/// Lets the program's children inherit memory that was mapped beside, if they inherited the
/// original.
fn inherit(batch: &mut Batch, start: u64, end: u64, image: &Image) {
    let area = image.areas.iter().find(|a| a.start <= start && start < a.end);
    if !area.is_some_and(|a| a.advice.contains(&(libc::MADV_DONTFORK as u8))) {
        let args = [start, end - start, libc::MADV_DOFORK as u64, 0, 0, 0];
        batch.must("showing memory to children", libc::SYS_madvise, args);
    }
}

/// Makes memory that was laid out for an earlier image fit a later one. Areas that differ are empty
/// afterwards.
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

/// Discards pages that were sent, and that the process has given back to the kernel since.
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

/// MAP_DROPPABLE of linux/mman.h, since Linux 6.11.
const MAP_DROPPABLE: i32 = 0x08;

pub(crate) fn map(batch: &mut Batch, area: &Area, given: &Given) {
    let kind = match area {
        Area { shared: true, .. } => libc::MAP_SHARED,
        Area { droppable: true, .. } => MAP_DROPPABLE,
        _ => libc::MAP_PRIVATE,
    };
    let mut flags = libc::MAP_FIXED_NOREPLACE | kind;
    // MAP_STACK is left out: the kernel (since 6.7) would keep huge pages out of such an area, and
    // does not tell whether the original has the flag.
    for (on, flag) in [(area.grows_down, libc::MAP_GROWSDOWN), (area.no_reserve, libc::MAP_NORESERVE)] {
        flags |= if on { flag } else { 0 };
    }
    let (fd, offset) = match area.content {
        Content::Anonymous => {
            flags |= libc::MAP_ANONYMOUS;
            (-1i64, 0)
        }
        Content::File { file, offset } => (i64::from(given.file(file)), offset),
        // These are mapped when their content is there (crate::memories, crate::rings).
        Content::Memory { .. } | Content::Ring => return,
    };
    let bytes = area.end - area.start;
    let protection = u64::from(area.protection);
    // An area that was once writable is mapped so and then protected, so that the kernel accounts
    // for it.
    let was_writable = area.accounted && !area.shared && protection & libc::PROT_WRITE as u64 == 0;
    // The kernel would use a key for memory that can only be executed, possibly one of the
    // program's.
    let has_key = area.key != 0 && protection == libc::PROT_EXEC as u64;
    let protection = if has_key { libc::PROT_NONE as u64 } else { protection };
    let first = protection | if was_writable { libc::PROT_WRITE as u64 } else { 0 };
    batch.must("mapping memory", libc::SYS_mmap, [area.start, bytes, first, flags as u64, fd as u64, offset]);
    if was_writable {
        batch.must("protecting memory", libc::SYS_mprotect, [area.start, bytes, protection, 0, 0, 0]);
    }
    advise(batch, area);
}

/// Repeats the program's advice on an area.
pub fn advise(batch: &mut Batch, area: &Area) {
    let bytes = area.end - area.start;
    for advice in area.advice.iter().filter(|a| **a != 0) {
        batch.may(libc::SYS_madvise, [area.start, bytes, u64::from(*advice), 0, 0, 0]);
    }
    if area.locked {
        // The hosting node decides how much memory may be locked.
        batch.may(libc::SYS_mlock, [area.start, bytes, 0, 0, 0, 0]);
    }
}

/// Unmaps the vDSO's code, if the program has its data only.
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

/// The default action of a signal: the kernel's `struct sigaction`.
const DEFAULT_ACTION: [u64; 4] = [0; 4];

/// Resets all signal actions to the default.
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

/// Sets the state that all threads share: signal actions, timers, memory layout. `handles`: the
/// process may have other signal actions, because [`reset_actions`] was not called.
pub fn set_process(batch: &mut Batch, image: &Image, given: &Given, handles: bool) {
    let process = &image.process;
    let actions = (1..).zip(&process.actions);
    set_actions(batch, actions.filter(|(_, action)| handles || **action != DEFAULT_ACTION));
    let auxv = batch.put(&process.auxv);
    let exe = process.exe.map(|file| given.file(file)).filter(|fd| *fd >= 0);
    for exe in exe.into_iter().chain([-1]) {
        let map = batch.put(&layout_bytes(&process.layout, auxv, process.auxv.len() as u32, exe));
        let args = [PR_SET_MM, PR_SET_MM_MAP, map, LAYOUT_BYTES, 0, 0];
        // The kernel may refuse the file. The rest must succeed without it.
        if exe < 0 {
            batch.must("setting where things lie in memory", libc::SYS_prctl, args);
        } else {
            batch.may(libc::SYS_prctl, args);
        }
    }
    for (set, value) in &process.settings {
        batch.may(libc::SYS_prctl, [u64::from(*set), *value, 0, 0, 0, 0]);
    }
    rare_state::set_process(batch, process);
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

/// Encodes `struct prctl_mm_map` (linux/prctl.h).
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

/// Gives a thread away from home the nice value that it has at home, but none below 0: no guest
/// runs before its host's own programs.
pub fn give_way(batch: &mut Batch, thread: &Thread) {
    // The nice value cannot be lowered again without the right to do so.
    let nice = i64::from(thread.nice.max(0)) as u64;
    batch.may(libc::SYS_setpriority, [libc::PRIO_PROCESS as u64, 0, nice, 0, 0, 0]);
}

/// Sets the state of one thread, and leaves it stopped at the image's registers. The calls are
/// added to `batch`; `last` adds the final calls and makes all of them, before the region is
/// removed (with the first thread). Each batch costs a round trip.
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
    rare_state::set_thread(&mut batch, &thread.settings);
    batch.must("setting its personality", libc::SYS_personality, [u64::from(thread.personality), 0, 0, 0, 0, 0]);
    last(&mut inside, batch)?;
    if first {
        inside.unmap_region()?;
    }
    // This comes before the thread's CPU affinity is set.
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

/// Sets the scheduling of the thread as it was, as far as this node permits.
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

/// The information of a signal.
type Info = [u8; INFO_BYTES];
const INFO_BYTES: usize = 128;

/// Sends the signals again that were pending for the process, from its first thread, so that they
/// keep their information. `more` arrived since.
pub fn requeue(inside: &mut Inside, image: &Image, more: &[Info]) -> Result<(), BodyError> {
    let pid = image.process.pid as u64;
    let all: Vec<&[u8]> =
        image.process.pending.iter().map(Vec::as_slice).chain(more.iter().map(Info::as_slice)).collect();
    queue(inside, &all, |batch, signal, at| batch.may(libc::SYS_rt_sigqueueinfo, [pid, signal, at, 0, 0, 0]))
}

/// Sends the signals again that were pending for one thread. The thread sends them itself, because
/// the kernel accepts their information from no other.
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

/// Takes as many pending signals of each number, of the thread or its process, as are among these.
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
