//! Jobs: processes that belong together.
//!
//! A job is a [`Family`]: the processes that were named, and all that descend from them. The
//! [`Registry`] holds the jobs of a home, and says to which job a process belongs.
//!
//! The crate makes no system call. Lists of processes and the time are arguments.
#![forbid(unsafe_code)]

mod family;
mod name;
mod registry;

pub use family::{Family, Process, ProcessKey};
pub use name::{InvalidJobName, JobName};
pub use registry::{Job, JobError, JobId, JobSeeker, NewJob, Registry};
