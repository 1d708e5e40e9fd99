//! System calls made inside a stopped process: one by one from an instruction that is there, or as
//! a batch by a few instructions that are put there.
//!
//! A trap that comes while SIGTRAP is blocked or ignored makes the kernel forget the process'
//! action for it (force_sig_info_to_task in kernel/signal.c): so it is not blocked here, and who
//! collects actions must know whether it was ignored. Where a SIGTRAP of the program's waits, it
//! would be taken for ours: there all signals stay blocked, and calls are made one by one, each
//! from one stop at a call to the next.

mod batch;
mod memory;

use batch::Call;
pub use batch::{Batch, DATA_BYTES, REGION_BYTES};
pub use memory::Memory;

use crate::processor::{Together, made_together};
use crate::ptrace::{self, Event, HostTid, Stopped, TraceError, wait_for};
use crate::{Error, areas};

type Traced<T> = Result<T, TraceError>;

/// Stack of a new thread, which never uses it: it starts stopped, and is set to its own.
const STACK_BYTES: usize = 256;
/// Bytes of a `syscall` instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// A stopped thread through which its process makes calls. Dropping it leaves the thread stopped
/// for ever: end it with [`Inside::leave`].
#[derive(Debug)]
pub struct Inside {
    stopped: Option<Stopped>,
    tid: HostTid,
    memory: Memory,
    /// Address of a `syscall` instruction.
    gate: u64,
    /// Registers to start from.
    registers: libc::user_regs_struct,
    region: Option<u64>,
    /// Threads that the calls made.
    made: Vec<HostTid>,
    /// A SIGSTOP came meanwhile.
    halted: bool,
    /// Its filters do not see the calls.
    unfiltered: bool,
    /// No call may end in a trap: a SIGTRAP of the program's waits.
    quiet: bool,
}

const PAGE: usize = 4096;

/// Address of a `syscall` instruction in an executable part of the process.
pub fn gate(memory: &Memory, areas: &[areas::Area]) -> Result<u64, Error> {
    /// The vDSO is two pages; in any other code there is one before long, or the next area is
    /// tried.
    const LOOKED_AT_BYTES: u64 = 16 << 20;
    let executable = |a: &&areas::Area| a.executable && a.readable && a.name != b"[vsyscall]";
    let (kernels, others): (Vec<_>, Vec<_>) = areas.iter().filter(executable).partition(|a| a.name == b"[vdso]");
    for area in kernels.into_iter().chain(others) {
        // Page by page: those of a file of a room's that are not there yet cannot be read from
        // here.
        for page in (area.start..area.end.min(area.start + LOOKED_AT_BYTES)).step_by(PAGE) {
            let mut code = [0; PAGE];
            if memory.read(page, &mut code).is_ok()
                && let Some(at) = code.windows(2).position(|w| w == SYSCALL)
            {
                return Ok(page + at as u64);
            }
        }
    }
    Err(Error::new("looking for a syscall instruction", std::io::Error::from_raw_os_error(libc::ENOEXEC)))
}

/// Upper half of the first argument of calls that duplicate a descriptor, if it is not the program
/// that makes them: the kernel takes the lower half, and filters that see to duplicates can tell.
pub const OURS: u32 = 1;

/// The arguments, with that mark.
fn as_ours(nr: i64, mut args: [u64; 6]) -> [u64; 6] {
    if matches!(nr, libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_fcntl) {
        args[0] = args[0] & u64::from(u32::MAX) | u64::from(OURS) << 32;
    }
    args
}

impl Inside {
    /// Goes into the process of `stopped`. Its registers and mask are the caller's to save. No
    /// filter sees the calls if they were suspended ([`Stopped::suspend_filters`]).
    pub fn enter(mut stopped: Stopped, memory: Memory, gate: u64) -> Traced<Inside> {
        let mut registers = stopped.registers()?;
        registers.orig_rax = u64::MAX;
        registers.eflags &= !(TRAP_FLAG | DIRECTION_FLAG | ALIGNMENT_FLAG);
        let quiet = waits_for_trap(&stopped)?;
        stopped.set_mask(if quiet { u64::MAX } else { !TRAP })?;
        Ok(Inside {
            tid: stopped.tid(),
            unfiltered: std::mem::take(&mut stopped.unfiltered),
            stopped: Some(stopped),
            memory,
            gate,
            registers,
            region: None,
            made: Vec::new(),
            halted: false,
            quiet,
        })
    }

    /// Makes no call from now on that ends in a trap: a SIGTRAP is about to wait.
    pub fn be_quiet(&mut self) -> Traced<()> {
        self.quiet = true;
        self.stopped.as_mut().ok_or(TraceError::Gone)?.set_mask(u64::MAX)
    }

    /// A SIGTRAP of the program's waits: nothing was trapped.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// No filter sees its calls.
    pub fn is_unfiltered(&self) -> bool {
        self.unfiltered
    }

    /// As [`Inside::enter`], with the region that another thread of the process mapped.
    pub fn enter_beside(stopped: Stopped, memory: Memory, gate: u64, region: u64) -> Traced<Inside> {
        let mut inside = Inside::enter(stopped, memory, gate)?;
        inside.region = Some(region);
        Ok(inside)
    }

    /// Gives the thread that makes the calls.
    pub fn tid(&self) -> HostTid {
        self.tid
    }

    /// Gives the registers with which the thread was entered, in no system call.
    pub fn registers(&self) -> libc::user_regs_struct {
        self.registers
    }

    /// Gives the process' memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Tells where the region is, if it is mapped.
    pub fn region(&self) -> Option<u64> {
        self.region
    }

    /// Signals that wait for the process, or for the thread, with what they carry.
    pub fn pending(&self, shared: bool, max: usize) -> Traced<Vec<[u8; 128]>> {
        self.stopped.as_ref().ok_or(TraceError::Gone)?.pending(shared, max)
    }

    /// The `syscall` instruction that single calls are made from lies elsewhere now.
    pub fn set_gate(&mut self, gate: u64) {
        self.gate = gate;
    }

    /// Makes one call; what the kernel returned.
    pub fn call(&mut self, nr: i64, args: [u64; 6]) -> Traced<i64> {
        let args = as_ours(nr, args);
        let mut registers = self.registers;
        let gate = if self.quiet { self.quiet_gate() } else { self.gate };
        (registers.rip, registers.rax) = (gate, nr as u64);
        (registers.rdi, registers.rsi, registers.rdx) = (args[0], args[1], args[2]);
        (registers.r10, registers.r8, registers.r9) = (args[3], args[4], args[5]);
        let mut stopped = self.stopped.take().ok_or(TraceError::Gone)?;
        stopped.set_registers(&registers)?;
        let _together = Together::with(self.tid.0);
        if self.quiet {
            // To its beginning, and to its end.
            stopped.resume_to_call_end()?;
            let stopped = self.at_a_call()?;
            stopped.resume_to_call_end()?;
            let stopped = self.at_a_call()?;
            let result = stopped.registers()?.rax as i64;
            self.stopped = Some(stopped);
            return Ok(result);
        }
        stopped.step()?;
        Ok(self.trapped(true)?.rax as i64)
    }

    /// Has the thread, which stands at the end of a call, stop as if it was interrupted: from there
    /// the kernel restarts what its registers say is to be restarted.
    fn halt(&mut self) -> Traced<()> {
        let mut stopped = self.stopped.take().ok_or(TraceError::Gone)?;
        stopped.set_registers(&self.registers)?;
        loop {
            ptrace::interrupt(self.tid)?;
            stopped.resume(0)?;
            stopped = match wait_for(self.tid)? {
                Event::Halt(stopped, _) => {
                    self.stopped = Some(stopped);
                    return Ok(());
                }
                Event::Signal(stopped, signal) => {
                    self.halted |= signal == libc::SIGSTOP;
                    stopped
                }
                Event::Made(stopped, _)
                | Event::Exec(stopped, _)
                | Event::SystemCall(stopped)
                | Event::Filter(stopped)
                | Event::Other(stopped) => stopped,
                Event::Exited(_) | Event::Killed(_) => return Err(TraceError::Gone),
            };
        }
    }

    /// What the program has mapped itself may be gone where the region is.
    fn quiet_gate(&self) -> u64 {
        let in_region = batch::code().windows(SYSCALL.len()).position(|code| code == SYSCALL);
        self.region.zip(in_region).map_or(self.gate, |(region, at)| region + at as u64)
    }

    /// Waits for the next stop at the beginning or end of a call.
    fn at_a_call(&mut self) -> Traced<Stopped> {
        loop {
            let stopped = match wait_for(self.tid)? {
                Event::SystemCall(stopped) | Event::Signal(stopped, libc::SIGTRAP) => return Ok(stopped),
                Event::Signal(stopped, libc::SIGSTOP) => {
                    self.halted = true;
                    stopped
                }
                Event::Signal(stopped, signal) => {
                    self.stopped = Some(stopped);
                    let words = format!("making calls in {} (signal {signal})", self.tid.0);
                    return Err(Error::new(words, std::io::Error::from_raw_os_error(libc::EFAULT)).into());
                }
                Event::Made(stopped, child) => {
                    self.made.push(child);
                    stopped
                }
                Event::Halt(stopped, _) | Event::Other(stopped) | Event::Exec(stopped, _) | Event::Filter(stopped) => {
                    stopped
                }
                Event::Exited(_) | Event::Killed(_) => {
                    self.halted = false;
                    return Err(TraceError::Gone);
                }
            };
            stopped.resume_to_call_end()?;
        }
    }

    /// As [`Inside::call`]; what the kernel refused is an error that says what was tried.
    pub fn must(&mut self, doing: &str, nr: i64, args: [u64; 6]) -> Traced<u64> {
        refused(doing, self.call(nr, args)?)
    }

    /// Maps the region for batches at `at`, which must be free: [`REGION_BYTES`].
    pub fn map_region(&mut self, at: u64) -> Traced<()> {
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let (code, data) = ((libc::PROT_READ | libc::PROT_EXEC) as u64, (libc::PROT_READ | libc::PROT_WRITE) as u64);
        let doing = "mapping memory for injected calls";
        // In one call, unless the process has forsworn memory that is written and executed
        // (PR_SET_MDWE).
        let both = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        if self.call(libc::SYS_mmap, [at, REGION_BYTES, both, flags, u64::MAX, 0])? == at as i64 {
            self.memory.write(at, batch::code())?;
            self.region = Some(at);
            return Ok(());
        }
        self.must(doing, libc::SYS_mmap, [at, batch::CODE_BYTES, code, flags, u64::MAX, 0])?;
        let rest = REGION_BYTES - batch::CODE_BYTES;
        self.must(doing, libc::SYS_mmap, [at + batch::CODE_BYTES, rest, data, flags, u64::MAX, 0])?;
        self.memory.write(at, batch::code())?;
        self.region = Some(at);
        Ok(())
    }

    /// Unmaps the region.
    pub fn unmap_region(&mut self) -> Traced<()> {
        match self.region.take() {
            Some(at) => self.must("unmapping", libc::SYS_munmap, [at, REGION_BYTES, 0, 0, 0, 0]).map(drop),
            None => Ok(()),
        }
    }

    /// Gives a batch for the region.
    pub fn batch(&self) -> Batch {
        Batch::new(self.region.unwrap_or(0))
    }

    /// Makes all calls of a batch; results in their order. A call that had to succeed and did not
    /// is an error, and ends the batch.
    pub fn run(&mut self, batch: &Batch) -> Traced<Vec<i64>> {
        let Some(region) = self.region else {
            return Err(Error::new("running calls", std::io::Error::from_raw_os_error(libc::ENXIO)).into());
        };
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (_together, known) = (Together::with(self.tid.0), self.made.len());
        let results = self.run_parts(batch, region);
        self.made.iter().skip(known).for_each(|tid| made_together(tid.0));
        results
    }

    fn run_parts(&mut self, batch: &Batch, region: u64) -> Traced<Vec<i64>> {
        self.memory.write(batch.data_at(), batch.data())?;
        let mut results = Vec::new();
        if self.quiet {
            for call in batch.parts().flat_map(|part| part.calls) {
                results.push(self.call(call.nr, call.args)?);
                if call.must {
                    refused(&call.in_words(), results.last().copied().unwrap_or(0))?;
                }
            }
            return Ok(results);
        }
        for part in batch.parts() {
            self.memory.write(batch::calls_at(region), &part.encode())?;
            let mut registers = self.registers;
            (registers.rip, registers.rbx, registers.r12) = (region, batch::calls_at(region), part.calls.len() as u64);
            let mut stopped = self.stopped.take().ok_or(TraceError::Gone)?;
            stopped.set_registers(&registers)?;
            stopped.resume(0)?;
            let left = self.trapped(false)?.r12 as usize;
            let mut encoded = vec![0; part.encode().len()];
            self.memory.read(batch::calls_at(region), &mut encoded)?;
            let done = part.calls.len().saturating_sub(left);
            results.extend(part.results(&encoded).take(done + usize::from(left > 0)));
            if left > 0 {
                let doing = part.calls.get(done).map(Call::in_words).unwrap_or_default();
                return refused(&doing, results.last().copied().unwrap_or(0)).map(|_| results);
            }
        }
        Ok(results)
    }

    /// Makes a thread with this number (which takes CAP_CHECKPOINT_RESTORE); the way into it. The
    /// tracer must have asked for what its tracees make.
    pub fn make_thread(&mut self, tid: i32) -> Traced<Inside> {
        let mut batch = self.batch();
        let number = batch.put(&tid.to_le_bytes());
        let (stack, stack_bytes) = (batch.space(STACK_BYTES), STACK_BYTES as u64);
        let flags = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM;
        // `struct clone_args`: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
        // tls, set_tid, set_tid_size, cgroup.
        let words = [flags as u64, 0, 0, 0, 0, stack, stack_bytes, 0, number, 1, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let args = batch.put(&bytes);
        batch.must("making a thread", libc::SYS_clone3, [args, bytes.len() as u64, 0, 0, 0, 0]);
        self.run(&batch)?;
        let (Some(child), Some(region)) = (self.made.pop(), self.region) else { return Err(TraceError::Gone) };
        loop {
            match wait_for(child)? {
                Event::Halt(stopped, _) => {
                    let mut beside = Inside::enter_beside(stopped, self.memory.clone(), self.gate, region)?;
                    // A thread is traced as its maker was (ptrace_init_task in kernel/fork.c).
                    beside.unfiltered = self.unfiltered;
                    return Ok(beside);
                }
                Event::Signal(stopped, signal) => stopped.resume(signal)?,
                Event::Exited(_) | Event::Killed(_) => return Err(TraceError::Gone),
                Event::Made(stopped, _)
                | Event::Exec(stopped, _)
                | Event::SystemCall(stopped)
                | Event::Filter(stopped)
                | Event::Other(stopped) => stopped.resume(0)?,
            }
        }
    }

    /// Waits for the trap at the end of what was let run.
    fn trapped(&mut self, stepped: bool) -> Traced<libc::user_regs_struct> {
        loop {
            match wait_for(self.tid)? {
                Event::Signal(stopped, libc::SIGTRAP) => {
                    let registers = stopped.registers()?;
                    self.stopped = Some(stopped);
                    return Ok(registers);
                }
                // The group stops, or goes on again: that shows when the calls are made.
                Event::Halt(stopped, _) | Event::Other(stopped) | Event::SystemCall(stopped) if stepped => {
                    stopped.step()?
                }
                Event::Halt(stopped, _) | Event::Other(stopped) | Event::SystemCall(stopped) => stopped.resume(0)?,
                // No mask holds this one. It stops the process when that is left.
                Event::Signal(stopped, libc::SIGSTOP) => {
                    self.halted = true;
                    if stepped { stopped.step()? } else { stopped.resume(0)? }
                }
                Event::Signal(stopped, signal) => {
                    self.stopped = Some(stopped);
                    let words = format!("making calls in {} (signal {signal})", self.tid.0);
                    return Err(Error::new(words, std::io::Error::from_raw_os_error(libc::EFAULT)).into());
                }
                Event::Made(stopped, child) => {
                    self.made.push(child);
                    stopped.resume(0)?;
                }
                Event::Exec(stopped, _) | Event::Filter(stopped) => stopped.resume(0)?,
                Event::Exited(_) | Event::Killed(_) => {
                    self.halted = false;
                    return Err(TraceError::Gone);
                }
            }
        }
    }

    /// Leaves the process: the thread is stopped, with these registers and mask.
    pub fn leave(mut self, registers: &libc::user_regs_struct, mask: u64) -> Traced<Stopped> {
        if self.quiet {
            self.halt()?;
        }
        let mut stopped = self.stopped.take().ok_or(TraceError::Gone)?;
        stopped.unfiltered = self.unfiltered;
        stopped.restore_filters()?;
        stopped.set_registers(registers)?;
        stopped.set_mask(mask)?;
        Ok(stopped)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // A stop takes back continuations that wait: one that waits now came behind it, and takes
        // it back (signal(7), prepare_signal in kernel/signal.c).
        let continued =
            || crate::process::status(self.tid.0).is_ok_and(|s| s.pending & (1 << (libc::SIGCONT - 1)) != 0);
        if self.halted && !continued() {
            // SAFETY: numbers only; a tracee of ours, which has not been waited for.
            unsafe { libc::kill(self.tid.0, libc::SIGSTOP) };
        }
    }
}

const TRAP: u64 = 1 << (libc::SIGTRAP - 1);

fn waits_for_trap(stopped: &Stopped) -> Traced<bool> {
    const LOOKED_AT_MAX: usize = 4096;
    let waits = |shared| {
        let all = stopped.pending(shared, LOOKED_AT_MAX)?;
        Ok::<_, TraceError>(all.iter().any(|info| crate::signals::number(info) == libc::SIGTRAP))
    };
    Ok(waits(false)? || waits(true)?)
}

const TRAP_FLAG: u64 = 1 << 8;
const DIRECTION_FLAG: u64 = 1 << 10;
/// What is put there (the deputy's blob, which was compiled) need not be aligned.
const ALIGNMENT_FLAG: u64 = 1 << 18;

fn refused(doing: &str, result: i64) -> Traced<u64> {
    if (-4095..0).contains(&result) {
        return Err(Error::new(doing, std::io::Error::from_raw_os_error(-result as i32)).into());
    }
    Ok(result as u64)
}
