//! Collecting the state of stopped threads for an image: what the kernel tells from outside, and
//! what only system calls made in the process tell.

use crate::again::as_it_was;
use crate::error::{BodyError, stays};
use crate::freeze::Slept;
use crate::keys;
use crate::rare_state;
use crate::rebuild::{self, free_place};
use crate::rewind::{RESTART_BLOCK, rewind};
use crate::rings;
use crate::thread_words::{registers, stack_bytes, words};
use crate::timers;
use crate::watches;
use image::{Layout, Process, Rseq, Stack, Thread, Used, Watched};
use libc::user_regs_struct;
use os::areas;
use os::inject::{Batch, Inside, Memory, gate};
use os::landlock_probe::{LandlockProbe, tells_of_restrictions};
use os::processor::Together;
use os::ptrace::Stopped;
use std::time::Duration;

/// The collected state, and the threads in which it was collected.
#[derive(Debug)]
pub struct Collected {
    /// State that all threads share. The caller adds file names and directories.
    pub process: Process,
    /// The states of the threads.
    pub threads: Vec<Thread>,
    taken: Vec<EnteredThread>,
    /// The events that the epoll instances would have reported next, each with the descriptor of
    /// its instance ([`crate::watches`]).
    pub(crate) untold: Vec<(i32, Watched)>,
}

#[derive(Debug)]
struct EnteredThread {
    inside: Inside,
    registers: user_regs_struct,
    mask: u64,
}

/// The most pending signals that move with each thread and with the process.
const PENDING_MAX: usize = 4096;
const SIGNALS: u64 = 64;
const MASK_BYTES: u64 = 8;
const ACTION_BYTES: usize = 32;

/// The refusal of restricted processes. The kernel tells neither the rules of a restriction nor
/// their names.
pub const RESTRICTED: &str =
    "it is restricted: it may not look into a process of its own user's (Landlock, or another security module)";

/// The error, and the threads, which are stopped as they were.
type Failed = (BodyError, Vec<Stopped>);

/// What is known of a stopped process before its state is collected.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The memory areas of the process.
    pub areas: &'a [areas::Area],
    /// Mask of the signals that were ignored before the stop.
    pub ignored: u64,
    /// The time for which each thread had been asleep.
    pub slept: &'a Slept,
    /// A process whose threads may not access it is restricted in a way that nothing else tells.
    /// Collecting then fails.
    pub witness: Option<&'a LandlockProbe>,
}

/// Collects the state of `threads` (the leader first) of the process with the host's id `pid`.
/// `home` gives each thread's id at home. `still` is called when nothing changes the process'
/// memory any more.
///
/// # Errors
/// State that cannot move, or a failed system call. The threads are returned stopped as they were.
pub fn collect(
    pid: i32,
    mut threads: Vec<Stopped>,
    known: Known<'_>,
    home: impl Fn(i32) -> Result<i32, BodyError>,
    still: impl FnOnce(),
) -> Result<Collected, Failed> {
    let memory = match Memory::of(pid) {
        Ok(memory) => memory,
        Err(e) => return Err((e.into(), threads)),
    };
    threads = out_of_vdso(threads, known.areas, &memory)?;
    let ways = || {
        let gate = gate(&memory, known.areas)?;
        let region = free_place(known.areas.iter().map(|a| (a.start, a.end)))?;
        let seen = |stopped: &mut Stopped| {
            let slept = known.slept.get(&stopped.tid().0).copied();
            from_outside(stopped, home(stopped.tid().0)?, &memory, slept)
        };
        let seen = threads.iter_mut().map(seen).collect::<Result<Vec<_>, BodyError>>()?;
        Ok::<_, BodyError>((seen, Entry { pid, home: &home, memory, gate, region, known }))
    };
    let (seen, ways) = match ways() {
        Ok(ways) => ways,
        Err(e) => return Err((e, threads)),
    };
    // Requests of asynchronous I/O change memory until they have ended.
    let mut still = Some(still);
    let mut is_still = |ended: bool| still.take_if(|_| ended).map_or((), |still| still());
    is_still(!known.areas.iter().any(rings::is_ring));
    let mut collected =
        Collected { process: Process::default(), threads: Vec::new(), taken: Vec::new(), untold: Vec::new() };
    let _together = threads.first().and_then(|first| Together::with(first.tid().0));
    let mut threads = threads.into_iter();
    for (stopped, (thread, registers)) in threads.by_ref().zip(seen) {
        if let Err(e) = collected.add(stopped, thread, registers, &ways) {
            let mut given_back = collected.give_back().unwrap_or_default();
            // Their calls failed because of the stop alone.
            given_back.extend(threads.filter_map(|thread| ways.as_it_was(thread).ok()));
            return Err((e, given_back));
        }
        is_still(true);
    }
    collected.process.pid = collected.threads.first().map_or(0, |t| t.tid);
    Ok(collected)
}

/// Lets threads leave functions of the vDSO. Such a thread holds addresses of the kernel's pages,
/// which mean something else in another time namespace.
fn out_of_vdso(threads: Vec<Stopped>, areas: &[areas::Area], memory: &Memory) -> Result<Vec<Stopped>, Failed> {
    let Some(vdso) = areas.iter().find(|a| a.name == b"[vdso]").map(|a| a.start..a.end) else { return Ok(threads) };
    let mut threads = threads.into_iter();
    let mut outside = Vec::new();
    while let Some(thread) = threads.next() {
        match thread.leave_vdso(&vdso, memory) {
            Ok(thread) => outside.push(thread),
            Err(e) => {
                outside.extend(threads);
                return Err((e.into(), outside));
            }
        }
    }
    Ok(outside)
}

/// The means of entering a process.
struct Entry<'a> {
    pid: i32,
    home: &'a dyn Fn(i32) -> Result<i32, BodyError>,
    memory: Memory,
    gate: u64,
    region: u64,
    known: Known<'a>,
}

impl Entry<'_> {
    fn as_it_was(&self, thread: Stopped) -> Result<Stopped, BodyError> {
        let slept = self.known.slept.get(&thread.tid().0).copied().unwrap_or_default();
        as_it_was(thread, slept, &self.memory)
    }
}

impl Collected {
    fn add(
        &mut self,
        stopped: Stopped,
        mut thread: Thread,
        registers: user_regs_struct,
        ways: &Entry<'_>,
    ) -> Result<(), BodyError> {
        let (mask, first) = (thread.mask, self.taken.is_empty());
        let inside = if first {
            Inside::enter(stopped, ways.memory.clone(), ways.gate)?
        } else {
            Inside::enter_beside(stopped, ways.memory.clone(), ways.gate, ways.region)?
        };
        self.taken.push(EnteredThread { inside, registers, mask });
        let Some(taken) = self.taken.last_mut() else { return Ok(()) };
        let mut refused = Ok(());
        if first {
            taken.inside.map_region(ways.region)?;
        }
        let rings = if first { rings::collect(&mut taken.inside, ways.known.areas) } else { Ok(Vec::new()) };
        let mut timers = if first { timers::timers(ways.pid, ways.home)? } else { Vec::new() };
        let mut batch = taken.inside.batch();
        let of_process = first.then(|| ask_process(&mut batch));
        let of_thread = ask_thread(&mut batch, ways.known.witness);
        let results = taken.inside.run(&batch)?;
        if let Some(places) = of_process {
            (self.process, refused) = places.read(ways.pid, &mut taken.inside, &results, ways.known.ignored)?;
            if refused.is_ok() && !timers.is_empty() {
                timers::stop(&mut taken.inside, &mut timers)?;
            }
            self.process.timers = timers;
            match rings {
                Ok(rings) => self.process.rings = rings,
                Err(e) => refused = refused.and(Err(e)),
            }
            // Signals are read after the timers have been stopped: before that, timers could send
            // more.
            let pending = |shared| {
                Ok::<Vec<Vec<u8>>, BodyError>(
                    taken.inside.pending(shared, PENDING_MAX)?.into_iter().map(Vec::from).collect(),
                )
            };
            (self.process.pending, thread.pending) = (pending(true)?, pending(false)?);
        }
        of_thread.read(taken.inside.memory(), &results, &mut thread)?;
        let carried = rare_state::carried(thread.personality);
        self.threads.push(thread);
        refused.and(of_thread.unrestricted(&results)).and(carried)
    }
}

fn from_outside(
    stopped: &mut Stopped,
    tid: i32,
    memory: &Memory,
    slept: Option<Duration>,
) -> Result<(Thread, user_regs_struct), BodyError> {
    rare_state::told_from_outside(stopped)?;
    stopped.abort_sequence(memory)?;
    let registers = stopped.registers()?;
    if registers.orig_rax as i64 == libc::SYS_restart_syscall && registers.rax as i64 == RESTART_BLOCK {
        return stays(
            "it waits again in a call that was interrupted, and this kernel alone knows in which and for how long",
        );
    }
    let rewound = rewind(&registers, slept.unwrap_or_default(), |at| memory.word(at).ok());
    if let Some((at, bytes)) = rewound.put {
        memory.write(at, &bytes)?;
    }
    let rseq = stopped.rseq()?;
    let thread = Thread {
        tid,
        comm: os::process::comm(stopped.tid().0)?,
        registers: words(&rewound.registers),
        enters_call: rewound.put.is_some(),
        extended: stopped.cut_extended_state()?,
        mask: stopped.mask()?,
        nice: os::process::nice(stopped.tid().0)?,
        policy: scheduled(stopped.tid().0)?,
        io_priority: os::scheduling::io_priority(stopped.tid().0)?,
        processors: os::processor::chosen(stopped.tid().0),
        robust: stopped.robust_list()?,
        rseq: Rseq { area: rseq.area, bytes: rseq.bytes, signature: rseq.signature },
        pending: stopped.pending(false, PENDING_MAX)?.into_iter().map(Vec::from).collect(),
        ..Thread::default()
    };
    Ok((thread, registers))
}

/// Gives the scheduling policy of a thread, if a node schedules guests by it.
pub fn scheduled(tid: i32) -> Result<u32, BodyError> {
    match os::scheduling::policy(tid)? {
        policy if os::scheduling::is_real_time(policy) => {
            stays("it is scheduled in real time (chrt -m), as no node schedules its guests")
        }
        policy => Ok(policy),
    }
}

/// Bytes of the result of statx(2); it includes the inode number.
const STATX_BYTES: usize = 256;
const STATX_INO_AT: u64 = 32;
/// Bytes of the result of getrusage(2).
const USAGE_BYTES: usize = 144;

/// Places of the results about a process.
struct ProcessPlaces {
    actions: u64,
    timers: u64,
    brk: usize,
    ldt: usize,
    keys: Vec<usize>,
    settings: Vec<usize>,
    /// Place of the struct statx of the working directory.
    directory: u64,
    /// Places of the struct rusage, and of the process' CPU time.
    usage: u64,
    clock: u64,
    odd: rare_state::ProcessPlaces,
}

/// Asks about the process. The timers are stopped from here on: a timer that expired here too would
/// be seen twice. [`Collected::give_back`] starts them again.
fn ask_process(batch: &mut Batch) -> ProcessPlaces {
    let actions = batch.space(ACTION_BYTES * SIGNALS as usize);
    for signal in 1..=SIGNALS {
        let to = actions + (signal - 1) * ACTION_BYTES as u64;
        batch.must("asking for signal actions", libc::SYS_rt_sigaction, [signal, 0, to, MASK_BYTES, 0, 0]);
    }
    let brk = batch.may(libc::SYS_brk, [0; 6]);
    let ldt = batch.space(8);
    let ldt = batch.may(libc::SYS_modify_ldt, [0, ldt, 8, 0, 0, 0]);
    let keys = keys::ask(batch);
    let ask = |(get, _): &(u8, u8)| batch.may(libc::SYS_prctl, [u64::from(*get), 0, 0, 0, 0, 0]);
    let settings = image::SETTINGS.iter().map(ask).collect();
    let (directory, empty) = (batch.space(STATX_BYTES), batch.put(&[0]));
    // The kernel's cached values are enough, so nothing has to wait.
    let flags = (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC) as u64;
    let here = i64::from(libc::AT_FDCWD) as u64;
    batch.may(libc::SYS_statx, [here, empty, flags, u64::from(libc::STATX_INO), directory, 0]);
    let (usage, clock) = (batch.space(USAGE_BYTES), batch.space(16));
    batch.may(libc::SYS_getrusage, [libc::RUSAGE_SELF as u64, usage, 0, 0, 0, 0]);
    batch.may(libc::SYS_clock_gettime, [libc::CLOCK_PROCESS_CPUTIME_ID as u64, clock, 0, 0, 0, 0]);
    let odd = rare_state::ask_process(batch);
    let (timers, none) = (batch.space(3 * ACTION_BYTES), batch.space(ACTION_BYTES));
    for which in 0..3 {
        let to = timers + which * ACTION_BYTES as u64;
        batch.must("stopping timers", libc::SYS_setitimer, [which, none, to, 0, 0, 0]);
    }
    ProcessPlaces { actions, timers, brk, ldt, keys, settings, directory, usage, clock, odd }
}

impl ProcessPlaces {
    /// Reads the results, and checks whether the state can move.
    fn read(
        &self,
        pid: i32,
        inside: &mut Inside,
        results: &[i64],
        ignored: u64,
    ) -> Result<(Process, Result<(), BodyError>), BodyError> {
        let result = |place: usize| results.get(place).copied().unwrap_or(0);
        let layout = os::process::layout(pid)?;
        let mut process = Process { auxv: os::process::auxiliary(pid)?, ..Process::default() };
        let mut words = vec![0; ACTION_BYTES * SIGNALS as usize];
        inside.memory().read(self.actions, &mut words)?;
        process.actions = words.chunks_exact(ACTION_BYTES).map(four_words).collect();
        let mut words = [0; 3 * ACTION_BYTES];
        inside.memory().read(self.timers, &mut words)?;
        for (timer, words) in process.itimers.iter_mut().zip(words.chunks_exact(ACTION_BYTES)) {
            *timer = four_words(words);
        }
        // A timer whose signal is pending is set again when the signal is taken (dequeue_signal in
        // kernel/signal.c). Until then no time is left of it.
        let [real, ..] = &mut process.itimers;
        if real[2..] == [0, 0] {
            (real[2], real[3]) = (real[0], real[1]);
        }
        const TRAP: usize = libc::SIGTRAP as usize - 1;
        // The trap for injection made the kernel forget that the signal was ignored (os::inject).
        if ignored & (1 << TRAP) != 0 {
            process.actions[TRAP][0] = libc::SIG_IGN as u64;
        }
        let settings = self.settings.iter().zip(image::SETTINGS).map(|(place, (_, set))| (set, result(*place)));
        // A setting that this kernel does not know is not set.
        process.settings = settings.filter(|(_, v)| *v >= 0).map(|(set, v)| (set, v as u64)).collect();
        // The clock is exact. The kernel guesses from ticks which part of it was system time.
        let system_ns =
            inside.memory().word(self.usage + 16)? * 1_000_000_000 + inside.memory().word(self.usage + 24)? * 1000;
        process.used = Used { user_ns: time_ns(inside.memory(), self.clock)?.saturating_sub(system_ns), system_ns };
        process.cwd_inode = inside.memory().word(self.directory + STATX_INO_AT)?;
        process.layout = Layout {
            start_code: layout.start_code,
            end_code: layout.end_code,
            start_data: layout.start_data,
            end_data: layout.end_data,
            start_brk: layout.start_brk,
            brk: result(self.brk) as u64,
            start_stack: layout.start_stack,
            arg_start: layout.arg_start,
            arg_end: layout.arg_end,
            env_start: layout.env_start,
            env_end: layout.env_end,
        };
        process.keys = keys::answered(self.keys.iter().map(|place| result(*place)));
        let refused = match self.odd.read(inside.memory(), results, &mut process)? {
            Ok(()) if result(self.ldt) > 0 => stays("it has segments of its own (modify_ldt)"),
            other => other,
        };
        Ok((process, refused))
    }
}

/// Reads a `struct timespec`, in nanoseconds.
fn time_ns(memory: &Memory, at: u64) -> Result<u64, BodyError> {
    Ok(memory.word(at)? * 1_000_000_000 + memory.word(at + 8)?)
}

fn four_words(bytes: &[u8]) -> [u64; 4] {
    let mut found = [0; 4];
    for (word, bytes) in found.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    found
}

/// Places of the results about a thread.
struct ThreadPlaces {
    address: u64,
    stack: u64,
    slack: usize,
    clock: u64,
    looks: Option<usize>,
    odd: rare_state::ThreadPlaces,
}

fn ask_thread(batch: &mut Batch, witness: Option<&LandlockProbe>) -> ThreadPlaces {
    const PR_GET_TID_ADDRESS: u64 = 40;
    let (address, stack) = (batch.space(8), batch.space(24));
    batch.must("asking for the thread's address", libc::SYS_prctl, [PR_GET_TID_ADDRESS, address, 0, 0, 0, 0]);
    batch.must("asking for the signal stack", libc::SYS_sigaltstack, [0, stack, 0, 0, 0, 0]);
    let slack = batch.may(libc::SYS_prctl, [libc::PR_GET_TIMERSLACK as u64, 0, 0, 0, 0, 0]);
    let clock = batch.space(16);
    batch.may(libc::SYS_clock_gettime, [libc::CLOCK_THREAD_CPUTIME_ID as u64, clock, 0, 0, 0, 0]);
    let looks = witness.map(LandlockProbe::looked_into).map(|(nr, args)| batch.may(nr, args));
    ThreadPlaces { address, stack, slack, clock, looks, odd: rare_state::ask_thread(batch) }
}

impl ThreadPlaces {
    fn read(&self, memory: &Memory, results: &[i64], thread: &mut Thread) -> Result<(), BodyError> {
        thread.slack_ns = results.get(self.slack).map_or(0, |slack| (*slack).max(0) as u64);
        thread.used_ns = time_ns(memory, self.clock)?;
        (thread.settings, thread.personality) = (self.odd.read(memory, results)?, self.odd.personality(results));
        thread.clear_tid = memory.word(self.address)?;
        let flags = memory.word(self.stack + 8)? as u32 & !(libc::SS_ONSTACK as u32);
        thread.stack = Stack { at: memory.word(self.stack)?, flags, bytes: memory.word(self.stack + 16)? };
        Ok(())
    }

    fn unrestricted(&self, results: &[i64]) -> Result<(), BodyError> {
        match self.looks.and_then(|place| results.get(place)) {
            Some(result) if tells_of_restrictions(*result) => stays(RESTRICTED),
            _ => Ok(()),
        }
    }
}

/// Unregisters the addresses of a thread to which the kernel would write after the memory is gone.
pub fn forget(inside: &mut Inside, rseq: Rseq) -> Result<(), BodyError> {
    let mut batch = inside.batch();
    forgetting(&mut batch, rseq);
    inside.run(&batch)?;
    Ok(())
}

fn forgetting(batch: &mut Batch, rseq: Rseq) {
    const RSEQ_UNREGISTER: u64 = 1;
    const ROBUST_HEAD_BYTES: u64 = 24;
    if rseq.area != 0 {
        let args = [rseq.area, u64::from(rseq.bytes), RSEQ_UNREGISTER, u64::from(rseq.signature), 0, 0];
        batch.must("unregistering restartable sequences", libc::SYS_rseq, args);
    }
    batch.must("forgetting robust futexes", libc::SYS_set_robust_list, [0, ROBUST_HEAD_BYTES, 0, 0, 0, 0]);
    batch.must("forgetting the thread's address", libc::SYS_set_tid_address, [0; 6]);
}

/// Unregisters the addresses of all threads to which the kernel would write after the memory is
/// gone. After this the process cannot continue with its memory.
pub fn strip(collected: &mut Collected) -> Result<(), BodyError> {
    for (n, (taken, thread)) in collected.taken.iter_mut().zip(&collected.threads).enumerate() {
        let mut batch: Batch = taken.inside.batch();
        forgetting(&mut batch, thread.rseq);
        if n == 0 {
            rings::ending(&mut batch, &collected.process.rings);
        }
        let none = batch.put(&stack_bytes(Stack { at: 0, flags: libc::SS_DISABLE as u32, bytes: 0 }));
        // A thread that runs on its signal stack cannot give it up. The deputy's handlers do not
        // use it.
        batch.may(libc::SYS_sigaltstack, [none, 0, 0, 0, 0, 0]);
        taken.inside.run(&batch)?;
    }
    Ok(())
}

impl Collected {
    /// Gives access to the first thread.
    pub fn first(&mut self) -> Option<&mut Inside> {
        self.taken.first_mut().map(|t| &mut t.inside)
    }

    /// Gives access to all threads as they are now.
    pub fn into_insides(self) -> Vec<Inside> {
        self.taken.into_iter().map(|t| t.inside).collect()
    }

    /// Leaves pending signals for which `is_such` is true out of the image: they stay pending here.
    pub fn leave_behind(&mut self, is_such: impl Fn(&[u8]) -> bool) {
        self.process.pending.retain(|info| !is_such(info));
        self.threads.iter_mut().for_each(|thread| thread.pending.retain(|info| !is_such(info)));
    }

    /// Takes the signals that were pending when the state was collected. The body has them now.
    pub fn take_signals(&mut self) -> Result<(), BodyError> {
        let shared = self.process.pending.clone();
        for (n, (taken, thread)) in self.taken.iter_mut().zip(&self.threads).enumerate() {
            // A thread takes its own signals first, then those of its process (dequeue_signal in
            // kernel/signal.c).
            let all = thread.pending.iter().chain(shared.iter().filter(|_| n == 0));
            rebuild::take(&mut taken.inside, all)?;
        }
        Ok(())
    }

    /// Removes what the collection put into the process' memory, for another process that shares
    /// the memory.
    pub fn clear_away(mut self) -> Result<(), BodyError> {
        self.first().map_or(Ok(()), |first| Ok(first.unmap_region()?))
    }

    /// Gives the threads back as they were found, stopped. Nothing of the collection stays in the
    /// process.
    pub fn give_back(mut self) -> Result<Vec<Stopped>, BodyError> {
        const TRAP: usize = libc::SIGTRAP as usize - 1;
        let action = self.process.actions.get(TRAP).copied().unwrap_or_default();
        let (timers, posix_timers) = (self.process.itimers, std::mem::take(&mut self.process.timers));
        let untold = std::mem::take(&mut self.untold);
        if let Some(first) = self.first() {
            watches::watch_anew(first, &untold)?;
            let mut batch = first.batch();
            for (which, timer) in (0..).zip(timers).filter(|(_, timer)| timer[2..] != [0, 0]) {
                let at = batch.put(&timer.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
                batch.may(libc::SYS_setitimer, [which, at, 0, 0, 0, 0]);
            }
            timers::arm(&mut batch, &posix_timers);
            first.run(&batch)?;
            if action[0] == libc::SIG_IGN as u64 && !first.is_quiet() {
                let mut batch = first.batch();
                let bytes: Vec<u8> = action.iter().flat_map(|w| w.to_le_bytes()).collect();
                let at = batch.put(&bytes);
                batch.may(libc::SYS_rt_sigaction, [libc::SIGTRAP as u64, at, 0, MASK_BYTES, 0, 0]);
                first.run(&batch)?;
            }
            first.unmap_region()?;
        }
        let leave = |(n, taken): (usize, EnteredThread)| {
            // A rewound call stays rewound: the kernel would turn it into a call that could not be
            // told at the next stop.
            let collected = self.threads.get(n);
            let found = collected.map_or(taken.registers, |thread| registers(&thread.registers));
            let enters_call = collected.is_some_and(|thread| thread.enters_call);
            let mut stopped = taken.inside.leave(&found, if enters_call { u64::MAX } else { taken.mask })?;
            if enters_call {
                stopped = stopped.make_call_again()?;
                stopped.set_mask(taken.mask)?;
            }
            // Asking for a protection key changed the access rights of that key.
            if let Some(first) = self.threads.first().filter(|_| n == 0) {
                stopped.set_extended_state(&first.extended)?;
            }
            Ok(stopped)
        };
        self.taken.into_iter().enumerate().map(leave).collect()
    }
}
