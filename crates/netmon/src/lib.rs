//! Where messages queue between programs: in PVM and MPI, in tern, in sockets, in queueing
//! disciplines and in devices (`tern netmon`).
//!
//! The core is pure: records and their file ([`record`], [`mod@file`]), parsers of what the kernel
//! and PVM tell ([`parse`]), the state of all queues ([`book`]), how well a period is kept
//! ([`pace`]), what is wrong ([`diagnosis`]), and what people and programs read ([`render`]).
//! Around it are sources, which read ([`source`]), samplers, which call them at their times
//! ([`sampler`]), and the command ([`command`]).
#![forbid(unsafe_code)]

pub mod book;
pub mod classes;
pub mod cluster;
pub mod command;
pub mod diagnosis;
pub mod file;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod layer;
pub mod pace;
pub mod parse;
pub mod record;
pub mod render;
pub mod sampler;
pub mod source;
