//! Events for a migration session: from its room, from the steward of another room, and from the
//! threads that bring its pages.

use crate::room::orders::CommonFiles;
use crate::room::page_frame::Pages;
use crate::room::peer::{Given, StewardMessage};
use checkpoint::PageHash;
use migration_plan::protocol::RoomReply;
use room_protocol::Refusal;
use room_protocol::message::{LockedFile, MemoryId};
use std::time::Instant;

/// An answer of the room about a move.
#[derive(Debug)]
pub enum RoomEvent {
    /// The empty body is there, or not.
    Placed(Result<(), Refusal>),
    /// So many bytes of pages more are in place there.
    Taken(u64),
    /// These pages are there from an earlier stay.
    PeerPages(Vec<(u64, PageHash)>),
    /// Its memory is laid out, or not.
    LaidOut(Result<(), String>),
    /// The body stands, or not.
    Rebuilt(Result<(), String>),
    /// The body is about to be stopped; so many bytes it has of its own.
    Leaving(u64),
    /// The body, which has these threads, stands still, and nothing is under way for it here any
    /// more; so many notices had come there.
    Standing(Vec<i32>, u64),
    /// Home is to have these open files from now on.
    Share(CommonFiles),
    /// The process has memory in common with these, which have to come as well; its memories.
    Shares(Vec<i32>, Vec<MemoryId>),
    /// These of its open files may have locks of their own.
    Locked(Vec<LockedFile>),
    /// A part of the image; it is the last.
    Part(Vec<u8>, bool),
    /// Pages: where they lie, and their bytes.
    Pages(Pages),
    /// Pages that may be the same when it stops; which order wanted them.
    Advance(u32, Pages),
    /// These are here from before it left, and the same still.
    There(Vec<checkpoint::Run>),
    /// These come, and are full.
    HugePageHints(Vec<checkpoint::Run>),
    /// These follow when it runs here.
    Later(Vec<checkpoint::Run>),
    /// Everything was sent (but what follows), or why not.
    Whole(Result<(), Refusal>),
    /// Everything that follows was sent, or why not.
    Drained { loan: u32, result: Result<(), String> },
    /// Nothing is missing of it here any more, or why it will be for ever.
    Complete(Result<(), String>),
    /// Nothing is left of the body there.
    Left,
    /// Of a way to another room.
    Onward(room_protocol::message::onward::Said),
    /// The other steward says so, in this try.
    Peer(u32, StewardMessage),
    /// The steward gives a deputy.
    Given(Box<Given>),
    /// The steward says nothing more in this try.
    Silence(u32),
    /// The body runs there.
    Runs(Instant),
}

/// The step of a move that a message of the room's ends.
pub fn ends(heard: &RoomEvent) -> Option<RoomReply> {
    match heard {
        RoomEvent::Whole(_) => Some(RoomReply::Whole),
        RoomEvent::Left => Some(RoomReply::Left),
        _ => None,
    }
}
