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
    /// If it is in user code of the vDSO, which lies at `of`, it leaves that. No signal is delivered meanwhile.
    pub fn leave_vdso(mut self, of: &Range<u64>, memory: &Memory) -> Traced<Stopped> {
        if !self.is_at(of)? {
            return Ok(self);
        }
        let mask = self.mask()?;
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
        Ok(self)
    }

    fn is_at(&self, of: &Range<u64>) -> Traced<bool> {
        let registers = self.registers()?;
        Ok(of.contains(&registers.rip) && (registers.orig_rax as i64) < 0)
    }

    /// Has the function return to where it traps, which is many times sooner done than a hundred single steps. It may be inside still: who has a shadow
    /// stack does not return elsewhere, and what a debugger wrote into the frames is not known.
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
            let stopped = stopped.leave_vdso(&vdso, &memory).unwrap();
            assert!(!stopped.is_at(&vdso).unwrap());
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
