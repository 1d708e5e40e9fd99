//! Requests of the room, and the work of home that follows.
//!
//! [`from_room`] takes each message of the room to the one that serves it: a deputy's thread
//! ([`calls`], [`standins`]), the server of home's files ([`files`]), or a look at home's
//! [`devices`] and /proc ([`procfs`]). [`mounts`] says which of home's file systems a room sees.
//! The threads that run this serve files with borrowed rights: what needs the steward's privileges
//! is left to the poller's thread.
//!
//! Imports `room` and `deputy`.

pub mod calls;
pub mod clocks;
pub mod devices;
pub mod exits;
pub mod files;
pub mod from_room;
pub mod image_frames;
pub mod mounts;
pub mod procfs;
pub mod standins;
