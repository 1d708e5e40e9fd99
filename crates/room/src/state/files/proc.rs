//! The home's /proc: its nodes, its places, and the requests that home answers.

pub mod merge;
pub mod nodes;
pub mod place;
pub mod table;
