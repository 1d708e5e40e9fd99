//! Events about bodies that run here, and whose pages follow.

use crate::state::transfer::page_source::Source;
use checkpoint::Pager;
use link::Body;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// An event about them.
pub enum PostcopyEvent {
    /// One is about to run.
    Begins {
        /// PID of the process, at home.
        pid: i32,
        /// The home or room that sends them.
        loan: u32,
        /// The source of the pages.
        source: Source,
        /// Brings its pages.
        pager: Arc<Pager>,
    },
    /// A frame of pages.
    Pushed {
        /// The body of the message.
        body: Body,
        /// The home or room that sends it.
        source: Source,
    },
    /// A frame of runs that do not follow after all.
    Vacant {
        /// The body of the message.
        body: Vec<u8>,
        /// The home or room that sends it.
        source: Source,
    },
    /// A process has ended: perhaps nobody misses pages any more.
    Ended,
    /// Nothing of this process is missing any more.
    Complete {
        /// PID of the process, at home.
        pid: i32,
        /// The home or room that sent them.
        loan: u32,
    },
    /// What is missing of this process will not come.
    Broken {
        /// PID of the process, at home.
        pid: i32,
        /// The home or room that had it.
        source: Source,
        /// The failure, in words.
        why: String,
    },
}

impl PostcopyEvent {
    /// The process that it is about.
    pub fn process(&self) -> Option<i32> {
        match self {
            PostcopyEvent::Begins { pid, .. }
            | PostcopyEvent::Complete { pid, .. }
            | PostcopyEvent::Broken { pid, .. } => Some(*pid),
            PostcopyEvent::Pushed { body, .. } => room_protocol::page_frames::process(body),
            PostcopyEvent::Vacant { body, .. } => room_protocol::page_frames::process(body),
            PostcopyEvent::Ended => None,
        }
    }
}

/// The way to the thread.
pub struct PostcopyQueue {
    pub to: Sender<PostcopyEvent>,
    pub from: Mutex<Option<Receiver<PostcopyEvent>>>,
}

impl Default for PostcopyQueue {
    fn default() -> PostcopyQueue {
        let (to, from) = channel();
        PostcopyQueue { to, from: Mutex::new(Some(from)) }
    }
}

impl PostcopyQueue {
    /// Puts one at the end.
    pub fn give(&self, followed: PostcopyEvent) {
        // The thread ends with the room.
        let _ = self.to.send(followed);
    }
}
