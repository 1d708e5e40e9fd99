//! The state of one process, but for its pages: in transit or on disk. Bytes in, bytes out; every size is bounded.
#![forbid(unsafe_code)]

mod check;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod objects;
mod section;
mod shown;
mod state;

pub use check::Odd;
pub use objects::{Made, Memory, MemoryKind, Object, Objects, Pipe, Watched};
pub use section::{IMAGE_BYTES_MAX, ImageError};
pub use shown::shown;
pub use state::{
    Area, BARRIERS, Content, Descriptor, File, Image, Layout, Opened, PERMITTED_FEATURES, Process, Registers, Rseq,
    SETTINGS, Stack, Thread, ThreadSettings, Timer, Used, Vdso,
};
