//! The library that programs below `tern make`, `tern spread` and `tern shell` preload. It stands
//! before the functions of the C library that execute programs, asks the coordinator (`tern`)
//! whether a program is worth another place, and if so has it executed by way of `tern`.
//!
//! Freestanding, so that the same file serves each C library: it needs little of the program's own,
//! and all of that is found when it is loaded. A program without a dynamic linker does not load it,
//! and its children are not placed. Whatever fails here, the program is executed as it is.
//!
//! The functions may run in a child after vfork(2), which shares its parent's memory: they write
//! nothing but their own stack, and what they map they unmap.
#![no_std]

mod ask;
mod search;
mod spawn;
mod sys;
mod text;
mod tokens;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit_group(127)
}
