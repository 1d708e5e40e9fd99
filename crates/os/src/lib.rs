//! The one crate that makes ptrace, seccomp, namespace, mount and cgroup calls.

mod error;

pub mod apart;
pub mod areas;
pub mod awake;
pub mod ceded;
pub mod cgroup;
pub mod confinement;
pub mod expenses;
pub mod fault;
pub mod fds;
pub mod id_ranges;
pub mod in_flight;
pub mod inject;
pub mod journal;
pub mod kcmp;
pub mod leases;
pub mod mount;
pub mod namespace;
pub mod objects;
pub mod opened;
pub mod pages;
pub mod pairs;
pub mod pidfd;
pub mod probe;
pub mod process;
pub mod process_identity;
pub mod processor;
pub mod ptrace;
pub mod sample;
pub mod scheduling;
pub mod seccomp;
pub mod share;
pub mod signals;
pub mod socket;
pub mod stopped;
pub mod superuser;
pub mod told;
pub mod track;
pub mod userfault;
pub mod vdso;
pub mod vm;
pub mod waiting;
pub mod warm;
pub mod witness;

pub use error::{Error, Result};
