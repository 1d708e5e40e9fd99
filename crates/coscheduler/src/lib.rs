//! Coscheduling of real jobs (`tern cosched`, `tern gang`): what the rules of crate `cosched` say
//! is done to processes of this machine.
//!
//! A user has one **agent** on a node (`agent`), a process that begins with the first job and ends
//! after the last. The agent finds the processes of each job, and pulls the **levers** (`levers`):
//! it has processes stand still and go on, and raises and lowers their priority. Before it does
//! that for the first time, it tells its **guardian** (`guardian`) how to take that back. The
//! guardian is a process that waits for the agent's end, however that comes, and then takes all
//! back.
//!
//! The `command` asks the agent over a Unix socket (`protocol`).
#![forbid(unsafe_code)]

mod agent;
mod command;
mod guardian;
mod levers;
mod protocol;
mod statistics;

pub use agent::{Cluster, ROLE as AGENT_ROLE, main as agent_main};
pub use command::{Args, GangArgs, STARTER_ROLE, begin_own, gang, hosted, main, starter_main};
pub use guardian::{ROLE as GUARDIAN_ROLE, main as guardian_main};
