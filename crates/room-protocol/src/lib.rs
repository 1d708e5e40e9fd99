//! Frames and messages between a steward (home) and a warden (hosting node). Bytes in, bytes out;
//! every size is bounded.
#![forbid(unsafe_code)]

pub mod frame;
pub mod message;
pub mod packed;
pub mod page_frames;
mod refusal;

pub use frame::{FRAME_BYTES_MAX, Head, HeadError, Kind};
pub use message::{ToHome, ToRoom};
pub use refusal::Refusal;

/// Where files of home's lie that are there to be mapped (shm_open(3), sem_open(3)).
pub const SHARED_MEMORY: &str = "/dev/shm";

/// Version of everything in this crate; the two ends must agree.
pub const VERSION: u32 = 41;
