//! What `tern make`, `tern spread` and `tern shell` decide when a program below them is executed:
//! whether it is worth another place ([`Programs`], [`Marks`]), and which place ([`choose`]).
//!
//! Most programs of a build are over in a few milliseconds, which is less than a placement takes.
//! So shells, build tools and the usual helpers stay, compilers that compile go, and of all others
//! it is learnt how long they run. Nobody knows that of a program that was never seen: it goes, if
//! a place is free for it, for one slow helper costs less than one simulation that stays.

mod invocation;
mod marks;
mod places;
mod programs;

pub use invocation::{Invocation, Kind};
pub use marks::Marks;
pub use places::{Spot, choose, slots_of, tokens};
pub use programs::{KNOWN_MAX, Programs, WORTH_MS, Worth};
