//! Making a deputy of a stopped process: the blob is put into its memory, and each thread is set to
//! run it.

use abi::{Start, THREAD_AREA_BYTES, ThreadBlock};
use checkpoint::{BodyError, Collected, Inside};
use deputy_start::blob::Blob;
use os::areas::Area;
use os::pidfd::PidFd;
use os::processor::Together;
use os::ptrace::{self, Event, HostTid, Stopped};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// SIGKILL and SIGSTOP, which no thread can block (bit n-1 for signal n).
pub const NEVER_BLOCKED: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);

const PAGE: u64 = 4096;
/// Room for arguments and environment: what is longer is shown in part.
const ARG_ROOM_BYTES: u64 = 64 << 10;

/// The blob lies in the process, beside its own memory: it can still be taken out again.
pub struct Implant {
    region: Region,
    start: u64,
    /// The channels of its threads.
    channels: Vec<Channel>,
}

/// A thread's channel, as the process has it open until it is a deputy.
struct Channel {
    tid: i32,
    /// The end that the steward has fetched.
    ours: i32,
    theirs: i32,
}

/// Where everything lies: the blob, its [`Start`] and the argument strings, the threads' areas.
struct Region {
    base: u64,
    start: u64,
    arguments: u64,
    areas: u64,
    end: u64,
}

impl Region {
    fn at(base: u64, code_bytes: u64, threads: u64) -> Region {
        let start = base + code_bytes.next_multiple_of(PAGE);
        let arguments = start + size_of::<Start>() as u64;
        let areas = (arguments + ARG_ROOM_BYTES).next_multiple_of(PAGE);
        Region { base, start, arguments, areas, end: areas + threads * THREAD_AREA_BYTES as u64 }
    }

    fn area(&self, thread: usize) -> u64 {
        self.areas + (thread * THREAD_AREA_BYTES) as u64
    }
}

/// Puts the blob into the stopped process. `keeps`: its memory stays when it is a deputy. Also the
/// steward's ends of its threads' channels, by TID.
pub fn implant(
    pidfd: &PidFd,
    collected: &mut Collected,
    taken: &[Area],
    ignored: u64,
    keeps: bool,
) -> Result<(Implant, Vec<(i32, OwnedFd)>), BodyError> {
    os::fault::at("implant")?;
    let _more = os::process::MoreDescriptors::give(collected.process.pid);
    let _together = collected.first().and_then(|first| Together::with(first.tid().0));
    let tids: Vec<i32> = collected.threads.iter().map(|t| t.tid).collect();
    let (layout, comm) = (collected.process.layout, collected.threads.first().map_or(Vec::new(), |t| t.comm.clone()));
    let first = collected.first().ok_or(BodyError::Exited)?;
    let blob = Blob::deputy();
    let size = Region::at(0, blob.image.len() as u64, tids.len() as u64).end;
    let injected = first.region().map(|at| (at, at + checkpoint::REGION_BYTES));
    let base = checkpoint::free_place_for(size, taken.iter().map(|a| (a.start, a.end)).chain(injected))?;
    let region = Region::at(base, blob.image.len() as u64, tids.len() as u64);
    let channels = map(first, &region, &tids)?;
    let fetch = |channel: &Channel| {
        let ours = pidfd.get_fd(channel.ours)?;
        let named = packet::name_senders(&ours, packet::Naming::ByNumber);
        named.map_err(|e| os::Error::new("preparing the deputy's channel", e))?;
        Ok::<_, BodyError>((channel.tid, ours))
    };
    let ours = channels.iter().map(fetch).collect::<Result<Vec<_>, _>>()?;
    let numbers: Vec<i32> = channels.iter().map(|channel| channel.theirs).collect();
    let shown = Shown { channels: &numbers, comm: &comm, layout, ignored, keeps };
    let start = write(first, &region, &blob, &shown)?;
    Ok((Implant { region, start, channels }, ours))
}

impl Implant {
    /// Nothing of it is left in the process.
    pub fn withdraw(self, collected: &mut Collected) -> Result<(), BodyError> {
        let first = collected.first().ok_or(BodyError::Exited)?;
        let mut batch = first.batch();
        let args = [self.region.base, self.region.end - self.region.base, 0, 0, 0, 0];
        batch.must("unmapping the deputy's memory", libc::SYS_munmap, args);
        for fd in self.channels.iter().flat_map(|channel| [channel.ours, channel.theirs]) {
            batch.must("closing the deputy's channel", libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
        first.run(&batch)?;
        Ok(())
    }

    /// Lets the process go on as a deputy, without a tracer; its own memory is gone then, or (what
    /// it `keeps`) hidden from its children. What was `written` to is closed: as long as it is open
    /// nobody can run it, and the program may close it. `was_stopped`: it stops again at once, but
    /// not before it is one.
    pub fn go(
        self,
        mut collected: Collected,
        keeps: &[(u64, u64)],
        written: &[i32],
        was_stopped: bool,
    ) -> Result<(), BodyError> {
        let _together = collected.first().and_then(|first| Together::with(first.tid().0));
        collected.take_signals()?;
        checkpoint::strip(&mut collected)?;
        let first = collected.first().ok_or(BodyError::Exited)?;
        let mut batch = first.batch();
        for (start, end) in keeps {
            batch.may(libc::SYS_madvise, [*start, end - start, libc::MADV_DONTFORK as u64, 0, 0, 0]);
        }
        for fd in written.iter().copied().chain(self.channels.iter().map(|channel| channel.ours)) {
            batch.may(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
        first.run(&batch)?;
        for (n, inside) in collected.into_insides().into_iter().enumerate() {
            let theirs = self.channels.get(n).map_or(-1, |channel| channel.theirs);
            let stopped = set_off(inside, n, &self.region, theirs, self.start)?;
            if was_stopped { stopped.resume(0)? } else { stopped.detach(0)? }
        }
        if was_stopped { self.channels.iter().try_for_each(|channel| stop_again(HostTid(channel.tid))) } else { Ok(()) }
    }
}

/// How long the blob may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(2);

/// A thread of a stopped process, which only its tracer lets run, stops again when the blob waits
/// in it for orders: it blocks all signals until then.
pub fn stop_again(tid: HostTid) -> Result<(), BodyError> {
    let since = Instant::now();
    let begins = || os::process::status(tid.0).is_ok_and(|s| s.blocked | NEVER_BLOCKED == u64::MAX);
    while begins() && since.elapsed() < BEGINS_WITHIN {
        std::thread::sleep(Duration::from_micros(50));
    }
    loop {
        ptrace::interrupt(tid)?;
        match ptrace::wait_within(tid, BEGINS_WITHIN)? {
            Some(Event::Halt(stopped, _)) => return Ok(stopped.detach(0)?),
            Some(Event::Signal(stopped, signal)) => stopped.resume(signal)?,
            Some(Event::Exited(_) | Event::Killed(_)) => return Err(BodyError::Exited),
            Some(
                Event::Made(stopped, _)
                | Event::Exec(stopped, _)
                | Event::SystemCall(stopped)
                | Event::Filter(stopped)
                | Event::Other(stopped),
            ) => stopped.resume(0)?,
            None => return Err(BodyError::NotMigratable("its deputy does not stop again".into())),
        }
    }
}

/// Maps the region and makes a socket pair for each of the threads in the process.
fn map(inside: &mut Inside, region: &Region, threads: &[i32]) -> Result<Vec<Channel>, BodyError> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let (code, data) = ((libc::PROT_READ | libc::PROT_EXEC) as u64, (libc::PROT_READ | libc::PROT_WRITE) as u64);
    let mut batch = inside.batch();
    for (from, to, protection) in [(region.base, region.start, code), (region.start, region.end, data)] {
        batch.must("mapping the deputy's memory", libc::SYS_mmap, [from, to - from, protection, flags, u64::MAX, 0]);
    }
    let pairs = batch.space(8 * threads.len());
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    for n in 0..threads.len() as u64 {
        let args = [libc::AF_UNIX as u64, kind, 0, pairs + 8 * n, 0, 0];
        batch.must("making the deputy's channel", libc::SYS_socketpair, args);
    }
    inside.run(&batch)?;
    let made = |(n, tid): (u64, &i32)| {
        let both = inside.memory().word(pairs + 8 * n)?;
        Ok(Channel { tid: *tid, ours: both as i32, theirs: (both >> 32) as i32 })
    };
    (0..).zip(threads).map(made).collect()
}

/// The parts of a program that its deputy shows and keeps.
struct Shown<'a> {
    /// The deputy's end of each thread's channel.
    channels: &'a [i32],
    /// The name of the first thread.
    comm: &'a [u8],
    /// Where the program's arguments and environment lie.
    layout: image::Layout,
    /// Signals that the program ignores (bit n-1 for signal n).
    ignored: u64,
    /// The memory of the program stays in the deputy.
    keeps: bool,
}

/// Writes everything that the blob finds; the address of its [`Start`].
fn write(inside: &Inside, region: &Region, blob: &Blob, shown: &Shown<'_>) -> Result<u64, BodyError> {
    let Shown { channels, comm: name, layout, ignored, keeps } = *shown;
    let memory = inside.memory();
    let mut code = blob.image.to_vec();
    for (at, address) in blob.relocated(region.base) {
        code[at..at + 8].copy_from_slice(&address.to_le_bytes());
    }
    memory.write(region.base, &code)?;
    let strings = |from: u64, to: u64, room: u64| {
        let mut bytes = vec![0; to.saturating_sub(from).min(room) as usize];
        // What the program has unmapped cannot be shown.
        let read = memory.read(from, &mut bytes);
        if read.is_ok() { bytes } else { Vec::new() }
    };
    let arguments = strings(layout.arg_start, layout.arg_end, ARG_ROOM_BYTES);
    let environment = strings(layout.env_start, layout.env_end, ARG_ROOM_BYTES - arguments.len() as u64);
    memory.write(region.arguments, &arguments)?;
    memory.write(region.arguments + arguments.len() as u64, &environment)?;
    let mut comm = [0; 16];
    let bytes = name.len().min(15);
    comm[..bytes].copy_from_slice(&name[..bytes]);
    let arg_end = region.arguments + arguments.len() as u64;
    let start = Start {
        region_start: region.base,
        region_end: region.end,
        arg_start: region.arguments,
        arg_end,
        env_end: arg_end + environment.len() as u64,
        arg_room: ARG_ROOM_BYTES,
        thread_area: region.area(0),
        channel_fd: channels.first().copied().unwrap_or(-1),
        exe_fd: -1,
        ignored: ignored & abi::FELT_IF_IGNORED,
        keeps: keeps.into(),
        comm,
        continued: AtomicU32::new(0),
        ready: AtomicU32::new(0),
    };
    // SAFETY: a plain record without padding (its size is the sum of its fields: abi checks it),
    // read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const start).cast::<u8>(), size_of::<Start>()) };
    memory.write(region.start, bytes)?;
    for (n, theirs) in channels.iter().enumerate().skip(1) {
        let block = ThreadBlock::new(region.area(n), *theirs, region.start);
        let words = [block.this, u64::from(block.channel_fd as u32), block.buffer, block.start];
        memory.write(block.this, &words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>())?;
    }
    Ok(region.start)
}

/// The thread will run the blob, with all signals blocked until that is ready for them.
fn set_off(inside: Inside, n: usize, region: &Region, theirs: i32, start: u64) -> Result<Stopped, BodyError> {
    let mut registers = inside.registers();
    registers.rip = region.base;
    registers.rax = 0;
    if n == 0 {
        (registers.rdi, registers.rsi) = (start, region.area(0) + abi::STACK_BYTES as u64 - 128);
    } else {
        let block = ThreadBlock::new(region.area(n), theirs, start);
        (registers.rdi, registers.rsp, registers.fs_base) = (0, block.this, block.this);
    }
    Ok(inside.leave(&registers, u64::MAX)?)
}
