//! Threads that are stopped inside a restartable sequence (rseq(2)).

use super::{Stopped, Traced};
use crate::inject::Memory;

/// `struct rseq`: where the address of the descriptor of the current sequence lies.
const CURRENT_AT: u64 = 8;
/// `struct rseq_cs`: version and flags, first instruction, length, where it is aborted.
const DESCRIPTOR_BYTES: usize = 32;
/// Before the first instruction where a sequence is aborted lies the signature that was registered.
const SIGNATURE_BYTES: u64 = 4;

impl Stopped {
    /// If it is inside a restartable sequence, it is set to where that is aborted: as the kernel
    /// does when a thread loses its processor there (rseq_ip_fixup in kernel/rseq.c). Calls that
    /// are made in the thread would have the kernel forget that it is in one, and then it would go
    /// on in it although others have run meanwhile.
    pub fn abort_sequence(&mut self, memory: &Memory) -> Traced<()> {
        let rseq = self.rseq()?;
        // What cannot be read the kernel could not have read, either.
        let current = if rseq.area == 0 { 0 } else { memory.word(rseq.area + CURRENT_AT).unwrap_or(0) };
        if current == 0 {
            return Ok(());
        }
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        if memory.read(current, &mut descriptor).is_err() {
            return Ok(());
        }
        let mut registers = self.registers()?;
        let Some(abort) = abort_of(&descriptor, registers.rip) else { return Ok(()) };
        let mut signature = [0; SIGNATURE_BYTES as usize];
        let signed = memory.read(abort.wrapping_sub(SIGNATURE_BYTES), &mut signature);
        // The kernel kills a program whose signature is another; this is not the place for it.
        if signed.is_ok() && u32::from_le_bytes(signature) == rseq.signature {
            memory.write(rseq.area + CURRENT_AT, &[0; 8])?;
            registers.rip = abort;
            self.set_registers(&registers)?;
        }
        Ok(())
    }
}

/// Tells where the sequence is aborted, if `at` lies in it.
fn abort_of(descriptor: &[u8; DESCRIPTOR_BYTES], at: u64) -> Option<u64> {
    let word = |from: usize| descriptor[from..from + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let (start, bytes, abort) = (word(8), word(16), word(24));
    (at.wrapping_sub(start) < bytes).then_some(abort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_ends_before_its_last_address() {
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        for (place, word) in [0x1000u64, 0x10, 0x2000].into_iter().enumerate() {
            descriptor[8 + 8 * place..16 + 8 * place].copy_from_slice(&word.to_le_bytes());
        }
        let aborts = [0xfff, 0x1000, 0x100f, 0x1010].map(|at| abort_of(&descriptor, at));
        assert_eq!(aborts, [None, Some(0x2000), Some(0x2000), None]);
    }
}
