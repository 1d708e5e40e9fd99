//! The meaning of a reply for later requests. The code is pure.

use super::behind::Promise;
use crate::proto::{CreateIn, EntryOut, FsyncIn, Opcode, Request};

/// The meaning of the reply to a request for later requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearing {
    /// Nothing at all.
    None,
    /// The reply opens a file; it begins with this many bytes of something else.
    Opens { after: usize },
    /// The reply opens this directory.
    OpensDir { node: u64 },
    /// The reply is the entry of a directory that was made.
    Makes,
    /// The reply to a write tells whether space is scarce.
    Writes,
    /// The reply tells that the content of this open file is on disk.
    Syncs { fh: u64 },
    /// The guest has had its answer.
    Promised(Promise),
}

impl Bearing {
    pub(super) fn of(request: &Request<'_>) -> Bearing {
        match request.opcode {
            Some(Opcode::Open) => Bearing::Opens { after: 0 },
            Some(Opcode::Create | Opcode::Tmpfile) if request.args().take::<CreateIn>().is_ok() => {
                Bearing::Opens { after: size_of::<EntryOut>() }
            }
            Some(Opcode::Opendir) => Bearing::OpensDir { node: request.header.nodeid },
            Some(Opcode::Mkdir) => Bearing::Makes,
            Some(Opcode::Write) => Bearing::Writes,
            Some(Opcode::Fsync) => {
                request.args().take::<FsyncIn>().map_or(Bearing::None, |sync| Bearing::Syncs { fh: sync.fh })
            }
            _ => Bearing::None,
        }
    }
}
