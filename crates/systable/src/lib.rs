//! THE table of system calls: one row per x86-64 number says what happens when a guest makes that
//! call, and why.
//!
//! The filter ([`filter::program`]), the dispatch of what the filter hands over ([`Row::class`],
//! [`Row::args`]), the names in traces ([`name`]) and the page `docs/SYSCALLS.md` ([`page::write`])
//! all come from these rows. A number without a row, or with two, does not compile.
//!
//! Source of numbers and names: `arch/x86/entry/syscalls/syscall_64.tbl` of Linux 6.19.
#![no_std]
#![forbid(unsafe_code)]

mod arg;
mod class;
pub mod errno;
pub mod filter;
pub mod page;
mod rows;
mod when;

pub use arg::{Arg, Len};
pub use class::{Class, Special};
pub use errno::Errno;
pub use rows::{LAST, Row, TABLE};
pub use when::{Cmp, When};

/// Gives the row of a number; `None` beyond the table, that is for calls that are newer than it.
pub fn row(nr: u32) -> Option<&'static Row> {
    let at = TABLE.partition_point(|row| u32::from(row.last) < nr);
    TABLE.get(at)
}

/// Gives the call's name, as in the manual; `None` for a number that never was a call or is newer
/// than the table.
pub fn name(nr: u32) -> Option<&'static str> {
    row(nr).map(|row| row.name).filter(|name| !name.is_empty())
}

/// Gives the number of a call by its name.
pub fn number(name: &str) -> Option<u32> {
    TABLE.iter().find(|row| !name.is_empty() && row.name == name).map(|row| u32::from(row.nr))
}
