//! Parsers of what the kernel, PVM and MPI tell. Nothing here reads anything; all bounds are
//! checked.

pub mod bytes;
pub mod elf;
pub mod ethtool;
pub mod inet_diag;
pub mod netlink;
pub mod open_mpi;
pub mod proc_maps;
pub mod proc_net_raw;
pub mod pvm_log;
pub mod pvm_message;
pub mod route;
pub mod softnet;
pub mod unix_diag;
