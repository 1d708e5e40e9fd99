//! A list of system calls and the instructions that make them: no stack, no libc, no relocation; a
//! trap ends them.

use std::arch::global_asm;

/// Bytes of one call in memory: number, six arguments, result, whether it must succeed.
const CALL_BYTES: usize = 72;
/// Page of the instructions.
pub const CODE_BYTES: u64 = 4096;
/// Calls that lie in the region at once.
const CALLS_MAX: usize = (128 << 10) / CALL_BYTES;
/// Memory for what the calls point to.
pub const DATA_BYTES: u64 = 256 << 10;
/// All of the region.
pub const REGION_BYTES: u64 = CODE_BYTES + (128 << 10) + DATA_BYTES;

// rbx: the next call, r12: how many are left.
global_asm!(
    // Global: whoever refers to them may lie in another object of this crate.
    ".pushsection .rodata",
    ".globl tern_batch_start, tern_batch_end",
    ".hidden tern_batch_start, tern_batch_end",
    "tern_batch_start:",
    "2: test r12, r12",
    "jz 4f",
    "mov rax, [rbx]",
    "mov rdi, [rbx + 8]",
    "mov rsi, [rbx + 16]",
    "mov rdx, [rbx + 24]",
    "mov r10, [rbx + 32]",
    "mov r8, [rbx + 40]",
    "mov r9, [rbx + 48]",
    "syscall",
    "mov [rbx + 56], rax",
    "cmp qword ptr [rbx + 64], 0",
    "je 3f",
    "cmp rax, -4095",
    "jae 4f",
    "3: add rbx, 72",
    "dec r12",
    "jmp 2b",
    "4: int3",
    "tern_batch_end:",
    ".popsection",
);

unsafe extern "C" {
    static tern_batch_start: u8;
    static tern_batch_end: u8;
}

/// Gives the instructions that make the calls of a batch.
pub fn code() -> &'static [u8] {
    let (start, end) = (&raw const tern_batch_start, &raw const tern_batch_end);
    // SAFETY: both labels lie in this binary's read-only data, the second behind the first.
    unsafe { std::slice::from_raw_parts(start, end.offset_from(start) as usize) }
}

/// Tells where the calls lie in a region.
pub fn calls_at(region: u64) -> u64 {
    region + CODE_BYTES
}

/// One system call of a batch.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) nr: i64,
    pub(super) args: [u64; 6],
    pub(super) must: bool,
    /// For the error.
    doing: &'static str,
}

impl Call {
    /// What was tried, on what.
    pub fn in_words(&self) -> String {
        format!("{} ({:#x}, {:#x})", self.doing, self.args[0], self.args[1])
    }
}

/// Calls, and the memory that they point to.
#[derive(Clone, Debug)]
pub struct Batch {
    region: u64,
    calls: Vec<Call>,
    data: Vec<u8>,
}

impl Batch {
    /// For the region at this address.
    pub fn new(region: u64) -> Batch {
        Batch { region, calls: Vec::new(), data: Vec::new() }
    }

    /// Adds a call that must succeed; its place in the results.
    pub fn must(&mut self, doing: &'static str, nr: i64, args: [u64; 6]) -> usize {
        self.calls.push(Call { nr, args, must: true, doing });
        self.calls.len() - 1
    }

    /// Adds a call that may fail; its place in the results.
    pub fn may(&mut self, nr: i64, args: [u64; 6]) -> usize {
        self.calls.push(Call { nr, args, must: false, doing: "" });
        self.calls.len() - 1
    }

    /// Puts bytes into the region (8-byte aligned); their address there.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.data.len();
        self.data.extend_from_slice(bytes);
        self.data.resize(self.data.len().next_multiple_of(8), 0);
        self.data_at() + at as u64
    }

    /// Makes room for a result; its address in the region.
    pub fn space(&mut self, bytes: usize) -> u64 {
        self.put(&vec![0; bytes])
    }

    /// Bytes of memory that can still be put.
    pub fn room(&self) -> usize {
        (DATA_BYTES as usize).saturating_sub(self.data.len())
    }

    /// Tells whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Tells where the memory of the batch lies.
    pub fn data_at(&self) -> u64 {
        self.region + (REGION_BYTES - DATA_BYTES)
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.calls.chunks(CALLS_MAX).map(|calls| Part { calls })
    }
}

/// As many calls as fit.
pub(super) struct Part<'a> {
    pub(super) calls: &'a [Call],
}

impl Part<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.calls.len() * CALL_BYTES);
        for call in self.calls {
            out.extend(call.nr.to_le_bytes());
            super::as_ours(call.nr, call.args).iter().for_each(|a| out.extend(a.to_le_bytes()));
            out.extend([0; 8]);
            out.extend(u64::from(call.must).to_le_bytes());
        }
        out
    }

    pub(super) fn results<'a>(&self, encoded: &'a [u8]) -> impl Iterator<Item = i64> + 'a {
        encoded.chunks_exact(CALL_BYTES).map(|call| call[56..64].iter().rev().fold(0i64, |n, b| n << 8 | i64::from(*b)))
    }
}
