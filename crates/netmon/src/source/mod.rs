//! Sources: each reads one thing that has queues, from the kernel or from another process.

pub mod backlog;
pub mod devices;
pub mod disciplines;
pub mod error;
pub mod mapped;
pub mod mpi_ranks;
pub mod netlink;
pub mod owners;
pub mod processes;
pub mod pvm_daemons;
pub mod pvm_tasks;
pub mod sockets;
