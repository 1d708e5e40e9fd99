//! The home's /dev: its paths, and the requests that home answers.

pub mod attributes;
pub mod paths;
pub mod table;
