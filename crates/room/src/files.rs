//! The file systems of the room that the warden serves: stand-ins, the home's /dev, and the home's
//! /proc.
//!
//! Imports `supervisor`, `state` and `sandbox`; not `calls`. `standins` hands requests for /dev on
//! to `devices`, which does not import it.

pub mod devices;
pub mod proc;
pub mod standins;
