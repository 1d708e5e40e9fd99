//! The server itself: its parts, and the messages that it sends to the room.
//!
//! Imports `state` alone. The files of `caching` and `requests` add methods to
//! [`Server`](server::Server); nothing here calls them.

pub(crate) mod answer;
mod invalidate;
mod reply;
pub(crate) mod server;
