//! The deputy's blob ([`blob`]), and how a process that asked for a place becomes it
//! ([`conversion`]): `tern run`, and programs that use the C library.

pub mod blob;
pub mod conversion;
