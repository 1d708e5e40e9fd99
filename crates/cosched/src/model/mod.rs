//! A simulated processor that runs local and distributed tasks by the rules of this crate, with the
//! parameters of the paper (section 5.3).
//!
//! Tasks arrive, compute, and end. A distributed task receives messages at points that are evenly
//! spaced in its computation, and cannot go past a point before its message has arrived. Messages
//! arrive whether or not the task runs. The simulation counts how often a task for which messages
//! wait is given the processor, against all those for which messages wait ([`Outcome::node_code`]).

mod parameters;
mod run;
mod task;
mod workload;

pub use parameters::{ParameterError, Parameters};
pub use run::{Outcome, SimulationError, simulate};
