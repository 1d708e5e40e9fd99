//! Parts of processes on their way in, in the order in which home or another room sent them.

use crate::state::transfer::page_source::Source;
use link::Body;
use room_protocol::message::onward::Sibling;
use room_protocol::page_frames::WINDOW_BYTES;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One item that came for a process.
#[derive(Debug)]
pub enum IncomingItem {
    /// The body of an image's frame.
    Part(Vec<u8>),
    /// The body of a frame of pages.
    Pages(Body),
    /// The body of a frame of runs of pages that are here from an earlier stay.
    PeerPages(Vec<u8>),
    /// The body of a frame of runs that come, and are full.
    HugePageHints(Vec<u8>),
    /// The body of a frame of runs that follow later.
    Later(Vec<u8>),
    /// Everything of this process was sent, but what follows.
    Rebuild {
        /// PID of the process, at home.
        pid: i32,
        /// Pages that are not there any more.
        gone: Vec<checkpoint::Run>,
        /// The image, if it has not come in parts.
        image: Vec<u8>,
        /// Whose pages follow: the number that their sender knows them by.
        loan: u32,
        /// The home or room that brought it.
        source: Source,
    },
    /// The memory of this process is to be laid out: pages come while it still runs.
    LayOut {
        /// PID of the process, at home.
        pid: i32,
        /// Who sends them and wants to know what is here of it already, if anybody does.
        stocked: Option<Source>,
        /// A process of another room with the same memory.
        sibling: Option<Box<Sibling>>,
    },
    /// The pages of such a process are in the cache, or will not come.
    Fetched {
        /// PID of the process that comes, at home.
        pid: i32,
        /// The home that waits to hear what is here.
        asker: Source,
    },
    /// Who sends a process wants to hear when all before this is in place.
    Await(Source),
    /// What was to come of this process over a way of its own does not.
    Lost {
        /// PID of the process, at home.
        pid: i32,
        /// The failure, in words.
        why: String,
    },
    /// The process will not come, or was killed.
    Forget {
        /// PID of the process, at home.
        pid: i32,
    },
}

impl IncomingItem {
    /// The process that it is of.
    pub fn process(&self) -> Option<i32> {
        match self {
            IncomingItem::Pages(body) => room_protocol::page_frames::process(body),
            IncomingItem::Part(body)
            | IncomingItem::PeerPages(body)
            | IncomingItem::HugePageHints(body)
            | IncomingItem::Later(body) => room_protocol::page_frames::process(body),
            IncomingItem::Rebuild { pid, .. }
            | IncomingItem::LayOut { pid, .. }
            | IncomingItem::Fetched { pid, .. }
            | IncomingItem::Lost { pid, .. }
            | IncomingItem::Forget { pid } => Some(*pid),
            IncomingItem::Await(_) => None,
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            IncomingItem::Pages(body) => body.len(),
            IncomingItem::Part(body)
            | IncomingItem::PeerPages(body)
            | IncomingItem::HugePageHints(body)
            | IncomingItem::Later(body)
            | IncomingItem::Rebuild { image: body, .. } => body.len(),
            _ => 0,
        }
    }
}

/// The way to the thread.
#[derive(Debug)]
pub struct IncomingQueue {
    pub to: Sender<IncomingItem>,
    pub from: Mutex<Option<Receiver<IncomingItem>>>,
    /// Bytes that wait here.
    pub waiting: Mutex<usize>,
    pub taken: Condvar,
}

impl Default for IncomingQueue {
    fn default() -> IncomingQueue {
        let (to, from) = channel();
        IncomingQueue { to, from: Mutex::new(Some(from)), waiting: Mutex::default(), taken: Condvar::new() }
    }
}

impl IncomingQueue {
    /// Puts one at the end.
    pub fn give(&self, item: IncomingItem) {
        *self.waiting() += item.bytes();
        // The thread ends with the room.
        let _ = self.to.send(item);
    }

    /// Waits while too much lies here. Home does not send more than it may, but other rooms send as
    /// fast as they can.
    pub fn make_way(&self) {
        let full = |waiting: &mut usize| *waiting as u64 > WINDOW_BYTES;
        drop(self.taken.wait_while(self.waiting(), full).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn waiting(&self) -> MutexGuard<'_, usize> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn took(&self, bytes: usize) {
        let mut waiting = self.waiting();
        *waiting = waiting.saturating_sub(bytes);
        self.taken.notify_all();
    }
}
