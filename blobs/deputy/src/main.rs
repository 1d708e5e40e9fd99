//! The program of a deputy. The blob unmaps everything but itself, tells the steward that it is
//! ready, and then runs the calls that the steward sends.
//!
//! Freestanding: no libc, no statics that are written, no relocations. Each thread has an area
//! (stack, then a buffer); its control block is at the top of the stack and found through the FS
//! base, so that the signal handler knows its channel.
#![no_std]
#![no_main]

mod mem;
mod serve;
mod signals;
mod start;
mod sys;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit_group(125)
}
