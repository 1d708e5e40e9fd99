//! The home's side of processes whose bodies run on other nodes: deputies, and the steward that
//! speaks for the deputies of one room.
//!
//! The directories are layers. A module imports only from its own directory and from those below:
//!
//! ```text
//! agent       the steward's threads: what they wait for, and what wakes them
//! migration   sessions that move processes out, home, and between rooms
//! restore     a deputy that takes its program's state back
//! describe    what a process of this machine is, as a room can hold it
//! proxy       what the room asks of home: calls, files, devices, /proc
//! room        the state of one room that all threads share, and the queues between them
//! deputy      one deputy: its record, threads, channel, proof, blob, watchdog
//! ```

mod agent;
mod closing;
mod deputy;
mod describe;
mod migration;
mod proxy;
mod restore;
mod room;

pub use agent::main as steward_main;
pub use deputy::watchdog;
pub use deputy_start::conversion;
pub use describe::picture::{leaves_with, picture};

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use agent::fuzz;
