//! Control messages: `tern` to `ternd` ([`tool`]), `ternd` to `ternd` ([`peer`]), `ternd` to
//! stewards ([`steward`]). No I/O.
#![forbid(unsafe_code)]

pub mod address;
pub mod codec;
pub mod facts;
pub mod guests;
pub mod history;
pub mod moves;
pub mod paths;
pub mod peer;
pub mod steward;
pub mod tool;
