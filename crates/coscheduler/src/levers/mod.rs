//! The levers: processes are made to stand still, and made to come first.

mod groups;
mod priority;
mod stop;

pub use groups::Groups;
pub use priority::{Boost, Thread};
pub use stop::Stop;

/// Reads when a process or thread began, ticks since the machine did; `None` if there is none of
/// this number.
pub fn began(tid: i32) -> Option<u64> {
    os::process::began(tid).ok()
}
