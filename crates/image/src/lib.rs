//! The image: the state of one process without its pages, in transit or on disk. Every size is
//! bounded.
#![forbid(unsafe_code)]

mod check;
mod describe;
pub mod dump;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod objects;
mod section;
mod state;

pub use check::{Inconsistent, RING_BYTES_MAX};
pub use describe::shown;
pub use objects::{Made, Memory, MemoryKind, Object, Objects, Pipe, Watched};
pub use section::{IMAGE_BYTES_MAX, ImageError};
pub use state::{
    Area, BARRIERS, Content, Descriptor, File, Image, Layout, Opened, PERMITTED_FEATURES, Process, Registers, Ring,
    Rseq, SETTINGS, Stack, Thread, ThreadSettings, Timer, Used, Vdso,
};
