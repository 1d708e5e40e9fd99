//! Coscheduling: rules that have the tasks of a parallel job run at the same time on the nodes of a
//! cluster whose owners use them, too. The crate is pure: time, readings of clocks and randomness
//! are arguments.
//!
//! A task that waits for a message blocks. When the message comes, the kernel puts the task behind
//! others, and the sender waits for it in turn. Three kinds of rules are here:
//!
//! - **Windows** ([`Windows`], EXPLICIT): all nodes run and stop the job's tasks at the same
//!   moments of an agreed clock.
//! - **Spinning** ([`Spin`], IMPLICIT): a task polls for a short time before it blocks.
//! - **Order by arrivals** ([`OrderList`], DYNAMIC and SDCA): a message that arrives may put its
//!   receiver ahead of other tasks of the processor.
//!
//! An order list stands for the ready queue of one processor. Its head is the task that runs. The
//! [`model`] keeps tasks in one and simulates the processor. [`Processor`] keeps the registered
//! tasks of a real processor in one, and a member that stands for all local work: no order list
//! replaces the kernel's queue, so the head is only preferred.
//!
//! The source is F. Solsona, F. Giné, P. Hernández and E. Luque, "Coscheduling Techniques and
//! Monitoring Tools for Non-Dedicated Cluster Computing", sections 2, 3, 5.2 and 5.3. DYNAMIC is
//! of P. G. Sobalvarro and others (1995, 1998). docs/coscheduling.md says how this crate reads what
//! the paper leaves open.
#![forbid(unsafe_code)]

mod cpu_use;
mod curves;
mod job;
mod job_mode;
mod local_share;
mod local_turns;
pub mod model;
mod order;
mod processor;
mod rule;
mod spin;
mod windows;

pub use cpu_use::DecayedUse;
pub use curves::{Experiment, NodeCode, NodeCodeTable, measure};
pub use job::{Job, is_daemon};
pub use job_mode::{JobMode, ModeName, UnknownModeName};
pub use jobs::{Process, ProcessKey};
pub use local_share::{LocalShare, LocalShareError, Preference};
pub use local_turns::{LocalTurn, LocalTurns};
pub use order::{Arrival, Dispatch, Entry, OrderList};
pub use processor::{Member, Processor, ProcessorSettings, RegisterError, TaskId};
pub use rule::{ArrivalRule, Mode, UnknownMode};
pub use spin::{Patience, Spin, SpinLimit};
pub use windows::{NodeClock, Phase, Window, WindowError, Windows};
