//! One deputy: the original process of a guest, which makes the calls that need its identity.
//!
//! Crate `deputy_start` turns `tern run` into a deputy before its program starts elsewhere;
//! [`implant`] makes a deputy of a process that has run. Both lay the blob out in the process and
//! leave a [`channel`] for each thread. From then on the steward keeps a [`record`] with its
//! [`thread`]s and their [`job`]s, believes nothing that the process says ([`proof`], [`hear`]),
//! and has the [`watchdog`] end it should the steward die. The [`table`] holds all records of a
//! room.
//!
//! This is the lowest layer: nothing here imports another directory of the crate.

pub mod channel;
pub mod closes;
pub mod early_signals;
pub mod errand;
pub mod hear;
pub mod homecoming;
pub mod implant;
pub mod job;
pub mod placement_request;
pub mod proof;
pub mod record;
pub mod rights;
pub mod stops;
pub mod table;
pub mod thread;
pub mod watchdog;
