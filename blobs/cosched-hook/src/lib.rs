//! The library that tasks of a coscheduled job preload (`tern cosched run`). The library stands
//! before the functions of the C library by which tasks wait for messages and read them.
//!
//! - **Spinning**: before a task waits, it polls for a short time ([`waits`]).
//! - **Reading ahead**: PVM reads the 16 bytes of a fragment's header, looks for the next event,
//!   and reads the body. With this library the first read takes all that the socket has, and later
//!   ones are served from a buffer ([`reads`]). The library does so for calls of libpvm3 alone.
//!   Reads of others go to the kernel, unless libpvm3 has read ahead on the same descriptor.
//!
//! Freestanding, so that the same file serves each C library. A file says which of both a task
//! does, and is read again now and then, so that a mode can be switched under way ([`mode`]).
//! Without that file the library does nothing.
#![no_std]

mod ahead;
mod mode;
mod original;
mod reads;
mod sys;
mod waits;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit_group(127)
}

/// Called by the dynamic linker.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    original::find_all();
    mode::read();
    ahead::begin();
}
