//! Attacks by ordinary users on the daemons and on one another. Each test attacks as an attacker
//! would; a module per attack surface.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod caller;
#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod exhaustion;
mod fairness;
mod leases;
mod lent;
mod lying_deputy;
mod reserve;
mod root;
mod sandbox;
mod silence;
mod support;
