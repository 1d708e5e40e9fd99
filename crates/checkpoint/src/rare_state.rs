//! Rarely used state of a process and of each thread. State that cannot move is refused by name.

use crate::error::{BodyError, stays};
use image::{Process, ThreadSettings};
use os::inject::{Batch, Memory};
use os::ptrace::Stopped;

/// Commands of membarrier(2) (linux/membarrier.h).
const MEMBARRIER_QUERY: u64 = 0;
const MEMBARRIER_REGISTRATIONS: u64 = 1 << 9;

/// Operations of arch_prctl(2) (asm/prctl.h).
const ARCH_GET_XCOMP_PERM: u64 = 0x1022;
const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
const ARCH_GET_UNTAG_MASK: u64 = 0x4001;

/// Operations of prctl(2) (linux/prctl.h).
const PR_GET_DUMPABLE: u64 = 3;
const PR_SET_DUMPABLE: u64 = 4;
const PR_GET_TSC: u64 = 25;
const PR_SET_TSC: u64 = 26;
const PR_MCE_KILL: u64 = 33;
const PR_MCE_KILL_GET: u64 = 34;
const PR_MCE_KILL_SET: u64 = 1;
const PR_GET_SPECULATION_CTRL: u64 = 52;
const PR_SET_SPECULATION_CTRL: u64 = 53;
/// The program may choose the setting.
const PR_SPEC_PRCTL: i64 = 1;

/// Bits of personality(2) that would change laid-out memory, or addresses that the kernel chooses
/// (linux/personality.h).
const NOT_CARRIED: [(u32, &str); 3] =
    [(0x0040_0000, "READ_IMPLIES_EXEC"), (0x0010_0000, "MMAP_PAGE_ZERO"), (0x0080_0000, "ADDR_LIMIT_32BIT")];

/// Places of the results about a process.
pub struct ProcessPlaces {
    registrations: usize,
    offered: usize,
    dumpable: usize,
    permitted: u64,
    untagged: u64,
}

pub fn ask_process(batch: &mut Batch) -> ProcessPlaces {
    let (permitted, untagged) = (batch.space(8), batch.put(&u64::MAX.to_le_bytes()));
    batch.may(libc::SYS_arch_prctl, [ARCH_GET_XCOMP_PERM, permitted, 0, 0, 0, 0]);
    batch.may(libc::SYS_arch_prctl, [ARCH_GET_UNTAG_MASK, untagged, 0, 0, 0, 0]);
    ProcessPlaces {
        registrations: batch.may(libc::SYS_membarrier, [MEMBARRIER_REGISTRATIONS, 0, 0, 0, 0, 0]),
        offered: batch.may(libc::SYS_membarrier, [MEMBARRIER_QUERY, 0, 0, 0, 0, 0]),
        dumpable: batch.may(libc::SYS_prctl, [PR_GET_DUMPABLE, 0, 0, 0, 0, 0]),
        permitted,
        untagged,
    }
}

impl ProcessPlaces {
    /// Reads the results into the process, and checks whether the state can move.
    pub fn read(
        &self,
        memory: &Memory,
        results: &[i64],
        process: &mut Process,
    ) -> Result<Result<(), BodyError>, BodyError> {
        let result = |place: usize| results.get(place).copied().unwrap_or(-1);
        process.barriers = barriers(result(self.registrations), result(self.offered));
        process.dumpable = u8::try_from(result(self.dumpable)).unwrap_or(1);
        process.permitted = memory.word(self.permitted)? & image::PERMITTED_FEATURES;
        Ok(match memory.word(self.untagged)? {
            u64::MAX => Ok(()),
            _ => stays("its addresses carry tags that the processor masks (LAM)"),
        })
    }
}

/// Gives the commands of membarrier(2) with which the process has registered. A kernel before 6.3
/// does not tell; then all that it offers count as registered. A registered process must not be
/// refused a barrier, and another one only gets some that it does not use.
fn barriers(registrations: i64, offered: i64) -> u16 {
    let known = if registrations >= 0 { registrations } else { offered.max(0) };
    known as u16 & image::BARRIERS
}

/// Registers for barriers, and asks for feature permissions. This must be done before other threads
/// exist: with them each registration waits until all processors have seen it.
pub fn set_process(batch: &mut Batch, process: &Process) {
    for command in (0..u16::BITS).map(|bit| 1u16 << bit).filter(|command| process.barriers & command != 0) {
        let doing = "registering for barriers of other threads (membarrier), as it has done";
        batch.must(doing, libc::SYS_membarrier, [u64::from(command), 0, 0, 0, 0, 0]);
    }
    for feature in (0..u64::BITS).filter(|bit| process.permitted >> bit & 1 == 1) {
        let doing = "asking for permission to use a processor's tiles (AMX), as it has done";
        batch.must(doing, libc::SYS_arch_prctl, [ARCH_REQ_XCOMP_PERM, u64::from(feature), 0, 0, 0, 0]);
    }
}

/// Sets whether the process may be dumped and traced. This must come after the last change of
/// credentials, which resets it. Only the kernel sets 2.
pub fn set_dumpable(batch: &mut Batch, process: &Process) {
    let value = u64::from(process.dumpable == 1);
    batch.must("setting who may look into it", libc::SYS_prctl, [PR_SET_DUMPABLE, value, 0, 0, 0, 0]);
}

/// Places of the results about a thread.
pub struct ThreadPlaces {
    counter: u64,
    broken_memory: usize,
    speculation: [usize; 3],
    personality: usize,
}

pub fn ask_thread(batch: &mut Batch) -> ThreadPlaces {
    let counter = batch.space(8);
    batch.may(libc::SYS_prctl, [PR_GET_TSC, counter, 0, 0, 0, 0]);
    let broken_memory = batch.may(libc::SYS_prctl, [PR_MCE_KILL_GET, 0, 0, 0, 0, 0]);
    let speculation = [0, 1, 2].map(|which| batch.may(libc::SYS_prctl, [PR_GET_SPECULATION_CTRL, which, 0, 0, 0, 0]));
    const ASKED: u64 = 0xffff_ffff;
    let personality = batch.may(libc::SYS_personality, [ASKED, 0, 0, 0, 0, 0]);
    ThreadPlaces { counter, broken_memory, speculation, personality }
}

impl ThreadPlaces {
    /// Gives the result of personality(2).
    pub fn personality(&self, results: &[i64]) -> u32 {
        results.get(self.personality).map_or(0, |answer| *answer as u32)
    }

    pub fn read(&self, memory: &Memory, results: &[i64]) -> Result<ThreadSettings, BodyError> {
        let result = |place: usize| results.get(place).copied().unwrap_or(-1);
        Ok(ThreadSettings {
            counter: memory.word(self.counter)? as u8,
            broken_memory: u8::try_from(result(self.broken_memory)).ok(),
            speculation: self.speculation.map(|place| chosen(result(place))),
        })
    }
}

/// Gives a speculation setting, if the thread may choose it.
fn chosen(answer: i64) -> u8 {
    if answer > 0 && answer & PR_SPEC_PRCTL != 0 { (answer & !PR_SPEC_PRCTL) as u8 } else { 0 }
}

/// Sets the settings of a thread. Default values are set, too, because the thread in which the
/// calls are made may have others.
pub fn set_thread(batch: &mut Batch, settings: &ThreadSettings) {
    if settings.counter != 0 {
        batch.may(libc::SYS_prctl, [PR_SET_TSC, u64::from(settings.counter), 0, 0, 0, 0]);
    }
    if let Some(policy) = settings.broken_memory {
        batch.may(libc::SYS_prctl, [PR_MCE_KILL, PR_MCE_KILL_SET, u64::from(policy), 0, 0, 0]);
    }
    for (which, value) in (0..).zip(settings.speculation).filter(|(_, value)| *value != 0) {
        batch.may(libc::SYS_prctl, [PR_SET_SPECULATION_CTRL, which, u64::from(value), 0, 0, 0]);
    }
}

/// __USER32_CS (asm/segment.h); a hypervisor may set higher bits.
const CODE_OF_32_BITS: u64 = 0x23;

/// The refusal of 32-bit programs.
pub const OTHER_CODE: &str = "it runs 32-bit code, whose system calls are others";

/// Refuses threads with state that would notice the injected calls, or interfere with them.
pub fn undisturbed(stopped: &Stopped) -> Result<(), BodyError> {
    if stopped.registers()?.cs & 0xff == CODE_OF_32_BITS {
        return stays(OTHER_CODE);
    }
    match stopped.dispatches_calls()? {
        true => stays("it intercepts its own system calls (PR_SET_SYSCALL_USER_DISPATCH)"),
        false => Ok(()),
    }
}

/// Refuses state of a stopped thread that cannot move and that the kernel tells from outside.
pub fn told_from_outside(stopped: &Stopped) -> Result<(), BodyError> {
    undisturbed(stopped)?;
    if stopped.has_ports()? {
        return stays("it may use ports of the machine (ioperm)");
    }
    Ok(())
}

/// Refuses a personality that a thread cannot have at the destination.
pub fn carried(personality: u32) -> Result<(), BodyError> {
    match NOT_CARRIED.iter().find(|(bit, _)| personality & bit != 0) {
        Some((_, name)) => stays(format!("its personality has {name} (personality(2))")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_registrations_count_as_all_that_the_kernel_offers() {
        const EINVAL: i64 = -22;
        assert_eq!(barriers(0b1_0000, 0x3ff), 0b1_0000);
        assert_eq!(barriers(0, 0x3ff), 0);
        assert_eq!(barriers(EINVAL, 0x1ff), 0b1_0101_0100);
        assert_eq!(barriers(EINVAL, -38), 0);
    }

    #[test]
    fn speculation_is_carried_where_it_may_be_chosen() {
        assert_eq!([-19, 0, 2, 3, 5, 9].map(chosen), [0, 0, 0, 2, 4, 8]);
    }

    #[test]
    fn personalities_that_change_memory_are_refused() {
        assert!(carried(0x0104_0008).is_ok());
        assert!(carried(0x0040_0008).is_err_and(|e| e.to_string().contains("READ_IMPLIES_EXEC")));
    }
}
