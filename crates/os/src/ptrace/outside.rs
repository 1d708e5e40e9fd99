//! Getting a thread out of a function of the vDSO (vdso(7)).

use super::{Event, HostTid, Stopped, TraceError, Traced, wait_for};
use crate::inject::Memory;
use crate::processor::Together;
use crate::vdso;
use std::ops::Range;

/// More instructions than any function of the vDSO makes.
const STEPS_MAX: usize = 4000;
const ONLY_TRAPS: u64 = !(1 << (libc::SIGTRAP - 1));

impl Stopped {
    /// If it is in user code of the vDSO, which lies at `of`, it leaves that. No signal is
    /// delivered meanwhile. Other code than this kernel's, which has other frames, is its author's
    /// to leave.
    pub fn leave_vdso(mut self, of: &Range<u64>, memory: &Memory) -> Traced<Stopped> {
        if !self.is_at(of)? || !vdso::is_own(|image| memory.read(of.start, image).is_ok()) {
            return Ok(self);
        }
        let (mask, unfiltered) = (self.mask()?, self.unfiltered);
        let _together = Together::with(self.tid.0);
        // A trap while SIGTRAP is blocked would end the process.
        self.set_mask(ONLY_TRAPS)?;
        self = self.return_to_trap(of, memory)?;
        for _ in 0..STEPS_MAX {
            if !self.is_at(of)? {
                break;
            }
            let tid = self.tid;
            self.step()?;
            self = next_stop(tid)?;
        }
        self.set_mask(mask)?;
        // Who runs is filtered, and who has made steps is taken for it.
        if unfiltered {
            self.suspend_filters()?;
        }
        Ok(self)
    }

    fn is_at(&self, of: &Range<u64>) -> Traced<bool> {
        let registers = self.registers()?;
        Ok(of.contains(&registers.rip) && (registers.orig_rax as i64) < 0)
    }

    /// Has the function return to where it traps, which is many times sooner done than a hundred
    /// single steps. It may be inside still: who has a shadow stack does not return elsewhere, and
    /// what a debugger wrote into the frames is not known.
    fn return_to_trap(self, of: &Range<u64>, memory: &Memory) -> Traced<Stopped> {
        let Some(exits) = vdso::exits() else { return Ok(self) };
        let (registers, tid) = (self.registers()?, self.tid);
        let slot = exits.return_slot(registers.rip - of.start, &registers);
        let Some((slot, back)) = slot.and_then(|slot| Some((slot, memory.word(slot).ok()?))) else { return Ok(self) };
        let trap = of.start + exits.trap();
        if of.contains(&back) || memory.write(slot, &trap.to_le_bytes()).is_err() {
            return Ok(self);
        }
        self.resume(0)?;
        let mut stopped = next_stop(tid)?;
        memory.write(slot, &back.to_le_bytes())?;
        let mut registers = stopped.registers()?;
        // Behind the instruction.
        if registers.rip == trap + 1 {
            registers.rip = back;
            stopped.set_registers(&registers)?;
        }
        Ok(stopped)
    }
}

fn next_stop(tid: HostTid) -> Traced<Stopped> {
    match wait_for(tid)? {
        Event::Exited(_) | Event::Killed(_) => Err(TraceError::Gone),
        Event::Signal(stopped, _)
        | Event::Halt(stopped, _)
        | Event::SystemCall(stopped)
        | Event::Made(stopped, _)
        | Event::Exec(stopped, _)
        | Event::Filter(stopped)
        | Event::Other(stopped) => Ok(stopped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::areas;
    use crate::pidfd::PidFd;
    use crate::ptrace::{interrupt, seize_gently};

    /// A process that looks at the clock and does nothing else; it ends with its parent's thread.
    fn watcher() -> i32 {
        // SAFETY: the child makes system calls and calls of the vDSO only.
        match unsafe { libc::fork() } {
            // SAFETY: only this thread is left of the child, which has its own memory.
            0 => unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let mut time: libc::timespec = std::mem::zeroed();
                let mut last = (0, 0);
                loop {
                    let failed = libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) != 0;
                    if failed || (time.tv_sec, time.tv_nsec) < last {
                        libc::_exit(1);
                    }
                    last = (time.tv_sec, time.tv_nsec);
                }
            },
            pid => pid,
        }
    }

    /// A process that does nothing but call `function`; it ends with its parent's thread.
    fn caller(function: extern "C" fn(i32, *mut libc::timespec) -> i32) -> i32 {
        // SAFETY: the child makes system calls and those of the function only.
        match unsafe { libc::fork() } {
            // SAFETY: only this thread is left of the child, which has its own memory.
            0 => unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let mut time: libc::timespec = std::mem::zeroed();
                while function(libc::CLOCK_MONOTONIC, &mut time) == 0 {}
                libc::_exit(1)
            },
            pid => pid,
        }
    }

    /// A copy of the vDSO in which the clock is asked by a plain call, as rooms give it to guests
    /// for whom this machine's clock is wrong.
    fn copy() -> (Range<u64>, extern "C" fn(i32, *mut libc::timespec) -> i32) {
        // mov $200,%ecx; 1: dec %ecx; jnz 1b; mov $228,%eax; syscall; ret
        const PLAIN: [u8; 17] = [0xb9, 200, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0xc3];
        let mut image = vdso::own();
        let at = vdso::functions(&image).unwrap().into_iter().find(|f| f.name == b"__vdso_clock_gettime").unwrap().at;
        image[at as usize..][..PLAIN.len()].copy_from_slice(&PLAIN);
        let (all, private) =
            (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of that size; the code at that place is a function of this type.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), image.len(), all, private, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            std::ptr::copy_nonoverlapping(image.as_ptr(), start.cast(), image.len());
            let start = start as u64;
            (
                start..start + image.len() as u64,
                std::mem::transmute::<u64, extern "C" fn(i32, *mut libc::timespec) -> i32>(start + at),
            )
        }
    }

    /// Failed once: its frames were taken to be the kernel's, and a return address was written into
    /// another one.
    #[test]
    fn a_thread_in_other_code_stays_as_it_is() {
        let (copy, function) = copy();
        let pid = caller(function);
        let tid = HostTid(pid);
        let memory = Memory::of(pid).unwrap();
        seize_gently(tid).unwrap();
        let mut inside = 0;
        while inside < 100 {
            interrupt(tid).unwrap();
            let stopped = next_stop(tid).unwrap();
            let (at, is_inside) = (stopped.registers().unwrap(), stopped.is_at(&copy).unwrap());
            let stopped = stopped.leave_vdso(&copy, &memory).unwrap();
            let now = stopped.registers().unwrap();
            assert!(!is_inside || (now.rip, now.rsp, now.rax) == (at.rip, at.rsp, at.rax));
            inside += i32::from(is_inside);
            stopped.resume(0).unwrap();
        }
        PidFd::open(pid).unwrap().kill(libc::SIGKILL).unwrap();
        while !matches!(wait_for(tid).unwrap(), Event::Killed(_)) {}
    }

    #[test]
    fn a_thread_leaves_the_vdso_at_once() {
        let pid = watcher();
        let tid = HostTid(pid);
        let (memory, areas) = (Memory::of(pid).unwrap(), areas::read(pid).unwrap());
        let vdso = areas.iter().find(|a| a.name == b"[vdso]").map(|a| a.start..a.end).unwrap();
        seize_gently(tid).unwrap();
        let (mut inside, mut at_once) = (0, 0);
        while inside < 200 {
            interrupt(tid).unwrap();
            let stopped = next_stop(tid).unwrap();
            if stopped.is_at(&vdso).unwrap() {
                inside += 1;
            }
            let stopped = match stopped.is_at(&vdso).unwrap() && inside % 2 == 0 {
                true => {
                    let mut stopped = stopped;
                    stopped.set_mask(ONLY_TRAPS).unwrap();
                    let mut stopped = stopped.return_to_trap(&vdso, &memory).unwrap();
                    stopped.set_mask(0).unwrap();
                    at_once += i32::from(!stopped.is_at(&vdso).unwrap());
                    stopped
                }
                false => stopped,
            };
            let mut stopped = stopped;
            let suspended = inside % 2 == 1 && stopped.suspend_filters().unwrap();
            let stopped = stopped.leave_vdso(&vdso, &memory).unwrap();
            assert!(!stopped.is_at(&vdso).unwrap());
            assert_eq!(stopped.unfiltered, suspended, "what it is told to be is what it is");
            stopped.resume(0).unwrap();
        }
        assert_eq!(at_once, 100);
        // It has seen nothing.
        interrupt(tid).unwrap();
        next_stop(tid).unwrap().resume(0).unwrap();
        PidFd::open(pid).unwrap().kill(libc::SIGKILL).unwrap();
        assert!(matches!(wait_for(tid).unwrap(), Event::Killed(_)));
    }
}
