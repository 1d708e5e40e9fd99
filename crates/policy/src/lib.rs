//! The policy: where processes should run. The crate is pure: a decision is a function of its
//! [`Inputs`]; clocks, sockets, threads and randomness are elsewhere.
//!
//! The measure is proportional fairness. A node's utility is the sum of `ln(rate)` over its
//! processes, where the rate is what one runnable process gets: `speed * min(1, cores / load)`. A
//! move is worth the change of that sum on both nodes. Between equal nodes a move then pays at a
//! difference of two processes and not of one, and speeds and core counts need no rule of their
//! own. Weighted by `exp(lag)`, where the lag is the work that a process has missed, the same sum
//! rotates processes that cannot be spread evenly (17 on 16 nodes, or slow nodes beside fast ones).
#![forbid(unsafe_code)]

mod accept;
pub mod accounts;
mod admit;
mod costs;
mod decide;
mod drain;
mod effective_speed;
mod hosts;
mod index;
mod log;
mod mover;
mod opportunity;
mod params;
mod place;
mod presence;
mod root_on;
mod settings;
mod speed;
pub mod spread;
mod usher;
mod utility;
mod view;

pub use accept::{Accept, AcceptError, Window};
pub use admit::{Ask, Refusal, admit};
pub use decide::{Cause, Inputs, Move, Stay, Verdict, decide, mean_rate, move_cost_ms};
pub use drain::{Turn, drain};
pub use effective_speed::EffectiveSpeed;
pub use hosts::{Claim, Granted, Grants, Holder, Host, LEASE_MS, RENEWED_EVERY_MS, Term, Wish};
pub use index::{Lag, LoadIndex, Mean, MemoryIndex};
pub use log::{Entry, LogError, Placement, RECORD_BYTES, Record, Replayed, replay};
pub use mover::{Mover, Reservation};
pub use params::{Mode, Params};
pub use place::place;
pub use presence::{Availability, Presence, Readings};
pub use root_on::RootOn;
pub use settings::{Devices, SCOPES, Scope, SettingError, Settings};
pub use speed::{speed_milli, work};
pub use view::{Hint, NodeView, ProcessView, Tie};
