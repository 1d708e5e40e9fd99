//! Samplers: the fast one reads sockets, the slow one everything else. Each is a thread.

pub mod clock;
pub mod fast;
pub mod output;
pub mod remote;
pub mod slow;
pub mod watch_mpi;
pub mod watch_pvm;
pub mod watch_sockets;
pub mod watch_tern;
