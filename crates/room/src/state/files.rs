//! What the layer `files` keeps between a request of the room's kernel and home's answer, by file
//! system. Imports nothing above `state`.

pub mod devices;
pub mod proc;
pub mod standins;
