//! Nodes that are virtual machines: QEMU without hardware help (TCG), with Debian's stock kernel, a
//! poorer CPU and a clock that is wrong. Namespaces share one kernel, CPU, clock and page cache,
//! which hides bugs; these do not.
//!
//! ```text
//! hub ── n3 init (__lab-init, in the switch's network) ── QEMU, at TAP n3 of the bridge
//!                                                         ║
//!            kernel ── __lab-machine (PID 1) ── __lab-agent (port 7, for the lab) ── ternd
//! ```
//!
//! The machine's memory is all it has: its first files are an archive ([`cpio`]) with this tern
//! binary and some modules of the kernel ([`kernel`]). It has no shell and no ssh: what the lab
//! wants of it, it asks of the agent ([`agent`], [`client`], [`words`]).

pub mod agent;
pub mod boot;
pub mod client;
mod console;
mod cpio;
mod elf;
pub mod inside;
mod kernel;
mod words;

/// The default CPU of a machine: all that QEMU can do but AVX2 and MPX. Nearly every machine of
/// today has AVX2, and none has MPX any more. Emulated MPX marks itself as in use in every signal
/// frame, so that processors without MPX refuse these frames.
pub const CPU: &str = "max,-avx2,-mpx";
/// The default memory of a machine, bytes.
pub const MEMORY_BYTES: u64 = 1 << 30;
/// The error of a machine's clock, nanoseconds.
pub const CLOCK_ERROR_NS: i64 = 3_000_000_000;

pub use kernel::provide;

/// Looks for QEMU and the kernel, and fetches the kernel if needed, while a user can still read
/// messages about it.
pub fn prepare() -> crate::error::Result<()> {
    kernel::find_qemu()?;
    kernel::find().map(drop)
}
