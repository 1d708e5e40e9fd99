//! Nodes that are virtual machines: QEMU without hardware help (TCG), with Debian's stock kernel, a poorer CPU and a clock that is wrong. Namespaces
//! share one kernel, CPU, clock and page cache, which hides bugs; these do not.
//!
//! ```text
//! hub ── n3 init (__lab-init, in the switch's network) ── QEMU ══ kernel ── __lab-machine (PID 1) ── __lab-agent ── ternd
//!                                                     TAP n3 of the bridge                            port 7, for the lab's commands
//! ```
//!
//! The machine's memory is all it has: its first files are an archive ([`cpio`]) with this tern binary and some modules of the kernel
//! ([`kernel`]). It has no shell and no ssh: what the lab wants of it, it asks of the agent ([`agent`], [`client`], [`words`]).

pub mod agent;
pub mod boot;
pub mod client;
mod console;
mod cpio;
mod elf;
pub mod inside;
mod kernel;
mod words;

/// CPU of a machine if not said otherwise: all that QEMU can do, but for AVX2, which nearly every machine of today has, and MPX, which none has any more: emulated, it
/// is said to be in use in every signal frame, so that processors without it refuse these.
pub const CPU: &str = "max,-avx2,-mpx";
/// Memory of a machine if not said otherwise, bytes.
pub const MEMORY_BYTES: u64 = 1 << 30;
/// By how much a machine's clock is wrong, nanoseconds.
pub const CLOCK_ERROR_NS: i64 = 3_000_000_000;

pub use kernel::provide;

/// Looks for QEMU and the kernel, and fetches the kernel if need be, while somebody can still read what is said about it.
pub fn prepare() -> crate::error::Result<()> {
    kernel::find_qemu()?;
    kernel::find().map(drop)
}
