//! A simulated cluster: the real gossip and policy code on thousands of nodes, with loss, delay,
//! partitions and deaths, driven by a seed.
//!
//! Processor sharing is computed exactly, from event to event. Only messages, ticks of the daemons
//! and moves take simulated time. The same scenario and seed give the same run, to the last event.
#![forbid(unsafe_code)]

mod background;
mod check;
mod event;
mod experiment;
mod faults;
mod fluid;
mod machine;
mod message;
mod messages;
mod moves;
mod process;
mod random;
mod scenario;
mod settling;
mod show;
mod workload;
mod world;

pub use check::{Violation, check};
pub use experiment::{Cell, Row, Table, experiment};
pub use plot::{AxisLabel, Curve, Scale, svg, svg_scaled};
pub use random::scenario as random_scenario;
pub use scenario::{
    Background, Columns, Fault, Jobs, Network, Nodes, Scenario, ScenarioError, Setting, Strategy, Work,
};
pub use workload::{Job, Workload, fluid_as_begun_s, workload};
pub use world::{Counts, Ended, Outcome, run};
