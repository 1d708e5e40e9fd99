//! From one room to another of the same home: the body goes straight from node to node, and the
//! stewards of both rooms agree about the deputy.
//!
//! The steward of the room that the process leaves drives ([`hand_over`]); that of the room where
//! it arrives follows ([`receive`]). They talk over a socket ([`steward_link`]).
//!
//! Within `migration` this imports the session and what all directions share.

pub mod hand_over;
pub mod receive;
pub mod steward_link;
