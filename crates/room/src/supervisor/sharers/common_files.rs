//! Open files that a body has in common with others of its room, as they were found.

use crate::supervisor::sharers::watched::Watch;
use checkpoint::BodyError;
use image::File;
use os::process::FdInfo;
use os::ptrace::HostTid;
use room_protocol::Refusal;
use room_protocol::message::{CommonPair, CommonPipe, StandinId};
use std::collections::BTreeSet;

/// The most bytes that all pipes and pairs of sockets together may hold: they go in one message.
pub const CONTENT_BYTES_MAX: usize = 512 << 10;

/// A descriptor of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorPlace {
    /// PID of the process, at home.
    pub pid: i32,
    /// Its first thread here.
    pub host: HostTid,
    /// The number that it has.
    pub fd: i32,
    /// Closed when another program is run.
    pub close_on_exec: bool,
}

/// An open file, and who has it under which numbers; those of the body that was asked for come
/// first.
#[derive(Clone, Debug)]
pub struct CommonOpenFile {
    /// The places that share it.
    pub places: Vec<DescriptorPlace>,
    /// The flags of open(2).
    pub flags: i32,
    /// What it is.
    pub what: CommonFileKind,
}

/// One of the kinds of [`CommonOpenFile`].
#[derive(Clone, Debug)]
pub enum CommonFileKind {
    /// A file of home's, with its offset.
    Named(File, u64),
    /// An end of a pipe: which one, and whether it is the one that is written to.
    PipeEnd(usize, bool),
    /// An end of a pair of sockets: which one, whether it is the second, and whether it has a time
    /// limit.
    PairEnd(usize, bool, bool),
    /// A stream, which becomes this stand-in again.
    Stream(StandinId),
    /// A stand-in, which becomes a stream.
    Standin(StandinId),
}

/// All of a body's.
#[derive(Clone, Debug, Default)]
pub struct Commons {
    /// The open files in common.
    pub files: Vec<CommonOpenFile>,
    /// The pipes in common.
    pub pipes: Vec<CommonPipe>,
    /// Pairs of sockets.
    pub pairs: Vec<CommonPair>,
    /// Epoll instances that watch any of them.
    pub watches: Vec<Watch>,
    /// The others who have any of them.
    pub others: BTreeSet<i32>,
    /// Why not all of them can be given behind a stand-in. Of those that run it need not be true.
    pub trouble: Option<Refusal>,
}

pub type Key = (u64, u64);

/// Descriptors of one open file, of whomever.
pub type Found = Vec<(DescriptorPlace, FdInfo)>;

/// The open files of a body that are looked for.
#[derive(Clone, Debug)]
pub enum Sought {
    /// Those that it has in common with others.
    Common,
    /// The same, and its pairs of sockets.
    CommonAndPairs,
    /// Those behind these descriptors, whoever else has them.
    Behind(BTreeSet<i32>),
    /// The stand-in of this number, whoever has it.
    Standin(StandinId),
}

impl Sought {
    /// An open file under this number, which nobody else has (`is_alone`), is among them.
    pub fn has(&self, fd: i32, is_alone: bool) -> bool {
        match self {
            Sought::Common | Sought::CommonAndPairs => !is_alone,
            Sought::Behind(fds) => fds.contains(&fd),
            Sought::Standin(_) => false,
        }
    }

    /// A socket that was made in the room, or a stream, is among them.
    pub fn has_pair(&self, fd: i32) -> bool {
        match self {
            Sought::Behind(fds) => fds.contains(&fd),
            Sought::Common | Sought::CommonAndPairs => true,
            Sought::Standin(_) => false,
        }
    }
}

impl Commons {
    /// Whether all that this process has under these numbers is among them.
    pub fn have(&self, pid: i32, fds: &BTreeSet<i32>) -> bool {
        let places = || self.files.iter().flat_map(|held| &held.places);
        fds.iter().all(|fd| places().any(|place| (place.pid, place.fd) == (pid, *fd)))
    }

    /// So much may still wait somewhere.
    pub fn bytes_left(&self) -> usize {
        let pipes = self.pipes.iter().map(|pipe| pipe.content.len());
        let messages = self.pairs.iter().flat_map(|pair| pair.ends.iter().flatten()).flat_map(|end| &end.content);
        CONTENT_BYTES_MAX.saturating_sub(pipes.chain(messages.map(Vec::len)).sum())
    }

    pub fn note(&mut self, result: Result<(), BodyError>) {
        if let Err(e) = result {
            self.trouble.get_or_insert_with(|| refusal(&e));
        }
    }
}

/// As home is told it.
pub fn refusal(e: &BodyError) -> Refusal {
    Refusal { why: e.to_string(), retryable: e.is_retryable() }
}
