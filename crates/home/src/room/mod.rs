//! One room, seen from home: the state that the steward's threads share.
//!
//! [`state::Room`] joins the parts, each of which owns its lock: the table of deputies, the link to
//! the room, the [`poller`], the registry of migration [`sessions`]. Threads that may not do a
//! thing themselves leave an [`orders::Order`] to the poller's thread, and hear of moves by
//! [`event::RoomEvent`]s. So the threads need not know each other.
//!
//! Imports `deputy` alone.

pub mod anchors;
pub mod args;
pub mod call_counts;
pub mod containment;
pub mod counting;
pub mod crossing_talk;
pub mod crossings;
pub mod event;
pub mod history;
pub mod inquiry;
pub mod joins;
pub mod last_words;
pub mod lent_memory;
pub mod link;
pub mod orders;
pub mod page_frame;
pub mod peer;
pub mod poller;
pub mod progress;
mod queues;
pub mod sessions;
pub mod state;
pub mod streams;
pub mod suspending;
pub mod suspension;
pub mod ways;
