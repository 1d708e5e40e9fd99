//! Control messages between the tool, the daemons and the stewards. No I/O.
#![forbid(unsafe_code)]

pub mod steward;
