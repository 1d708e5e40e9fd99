//! How memory and images travel, to home and to other rooms, in threads of their own. Imports
//! `state` and [`super::describe_guest`]; never the tracer, which imports it.

pub mod advance;
pub mod direct_link;
pub mod lane;
pub mod postcopy;
pub mod precopy;
pub mod precopy_home;
pub mod receiver;
pub mod sending;
pub mod sibling;
pub mod ways;
