//! The source of pages that a process of this room misses: home, or another room.

use crate::state::home_link::HomeLink;
use link::Sender as Link;
use room_protocol::message::onward::Wanted;
use room_protocol::{Kind, ToHome};
use std::sync::Arc;

/// The home or room that has the pages.
#[derive(Clone)]
pub enum Source {
    /// The pages come from home.
    Home,
    /// Another room, at the other end of this.
    Room(Arc<Link>),
}

/// Pages that a source sends when the process runs.
#[derive(Clone, Debug)]
pub struct Loan {
    /// The number that the source gave to it.
    pub number: u32,
    /// The source of the pages.
    pub source: Source,
}

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Home, Source::Home) => true,
            (Source::Room(one), Source::Room(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Source::Home) { "Home" } else { "Room" })
    }
}

impl Source {
    /// Tells home, or the other room.
    pub fn tell(&self, home: &HomeLink, to_home: ToHome, to_room: &Wanted) {
        match (self, postcard::to_stdvec(to_room)) {
            // The thread that reads from a link that fails sees the failure.
            (Source::Room(link), Ok(bytes)) => drop(link.send(Kind::Message, 0, 0, &[&bytes])),
            _ => home.tell(&to_home),
        }
    }
}

impl Source {
    /// Says that these pages are here from an earlier stay; whether they are the last.
    pub fn tell_stocked(&self, home: &HomeLink, pid: i32, pages: Vec<(u64, [u8; 16])>, last: bool) {
        match self {
            Source::Home if pages.is_empty() => {}
            Source::Home => home.tell(&ToHome::PeerPages { pid, pages }),
            Source::Room(link) => {
                // The thread that reads from a link that fails sees the failure.
                let told = postcard::to_stdvec(&Wanted::PeerPages { pages, last });
                let _ = told.map(|bytes| link.send(Kind::Message, 0, 0, &[&bytes]));
            }
        }
    }

    /// Says that all that it has sent of a process is in place.
    pub fn tell_in_place(&self) {
        if let (Source::Room(link), Ok(bytes)) = (self, postcard::to_stdvec(&Wanted::InPlace)) {
            // The thread that reads from a link that fails sees the failure.
            let _ = link.send(Kind::Message, 0, 0, &[&bytes]);
        }
    }
}
