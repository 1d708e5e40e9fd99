//! What two stewards of one home say to each other while a process goes from the room of the one to
//! that of the other: over the socket of the one that it comes to.

use super::{Heard, MoveError};
use crate::steward::deputies::Deputy;
use crate::steward::shared::Shared;
use os::pidfd::PidFd;
use os::socket;
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Largest packet, bytes.
pub const PACKET_BYTES: usize = 192 << 10;

/// One says to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// From the one that it comes to: an empty body is there.
    Prepared,
    /// Likewise: it stands there, and may run.
    Stands,
    /// From the one that it leaves, the commit point: this deputy is yours. What it holds the
    /// process by, and the channels of its threads in this order, come in the packets behind it.
    Take(Box<Handover>),
    /// Some of these.
    More,
    /// From the other: it is ours, and runs.
    Taken,
    /// It has run since then: CLOCK_MONOTONIC, nanoseconds.
    Runs {
        /// By this home's clock.
        monotonic_ns: i64,
    },
    /// It cannot come, in words: nothing was changed.
    Failed {
        /// The reason, in words.
        why: String,
    },
    /// The same, for what was so at that moment.
    Fleeting {
        /// The reason, in words.
        why: String,
    },
}

impl Word {
    /// An error if it is a refusal.
    pub(super) fn refused(self) -> Result<(), MoveError> {
        match self {
            Word::Failed { why } => Err(MoveError::Room(why)),
            Word::Fleeting { why } => Err(MoveError::Fleeting(why)),
            _ => Ok(()),
        }
    }
}

/// A deputy, but for its descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Its threads, and what the ends of their channels are in it.
    pub threads: Vec<(i32, Option<i32>)>,
    /// Its descriptors that stand-ins stand for, those of one open file together.
    pub standins: Vec<Vec<i32>>,
    /// Path of its program.
    pub path: Vec<u8>,
    /// What was refused to it.
    pub refusals: Vec<String>,
    /// Children whose ends are not told.
    pub unborn: Vec<i32>,
    /// Calls that were made for the body.
    pub calls: u64,
    /// Some of the body's pages follow when it runs: by this loan.
    pub follows: Option<u32>,
    /// Its descriptors to which something has happened since the body stood still.
    pub changed: Vec<i32>,
    /// Signals that came while the body stood still, and the threads that they were for.
    pub signals: Vec<(Option<i32>, Vec<u8>)>,
}

impl Handover {
    /// Of this deputy; and what its threads are reached by, in the same order.
    pub fn of<'a>(
        deputy: &'a Deputy,
        signals: &[(Option<i32>, [u8; 128])],
        (follows, changed): (Option<u32>, Vec<i32>),
    ) -> (Handover, Vec<BorrowedFd<'a>>) {
        let threads = deputy.threads.iter().map(|(tid, thread)| (*tid, thread.number)).collect();
        let channels = deputy.threads.values().map(|thread| thread.channel().as_fd());
        let handover = Handover {
            threads,
            standins: deputy.standins.values().cloned().collect(),
            path: deputy.program.path.clone(),
            refusals: deputy.refusals.iter().cloned().collect(),
            unborn: deputy.unborn.clone(),
            calls: deputy.calls,
            follows,
            changed,
            signals: signals.iter().map(|(tid, info)| (*tid, info.to_vec())).collect(),
        };
        let fds = [deputy.pidfd.as_fd()].into_iter().chain(channels).collect();
        (handover, fds)
    }
}

/// A deputy that has come, with the descriptors that were with it.
#[derive(Debug)]
pub struct Given {
    /// What was said of it.
    pub handover: Handover,
    /// The handle of the process.
    pub pidfd: PidFd,
    /// Its threads' channels.
    pub channels: Vec<OwnedFd>,
}

/// A conversation: what the other end says is heard by the move of the process. It ends for the
/// other when this is dropped.
pub struct Talk {
    socket: Arc<OwnedFd>,
}

impl Talk {
    /// With the steward at this socket.
    pub fn begin(path: &Path) -> Result<Talk, MoveError> {
        Ok(Talk { socket: Arc::new(socket::connect(path)?) })
    }

    /// Over a socket that came.
    pub fn over(socket: OwnedFd) -> Talk {
        Talk { socket: Arc::new(socket) }
    }

    /// Has what comes told to the move of `pid`; `turn` is the number of the try, behind which
    /// nothing of an earlier one is taken for one of this.
    pub fn listen(&self, room: &Arc<Shared>, pid: i32, turn: u32) -> Result<(), MoveError> {
        let (room, socket) = (room.clone(), self.socket.clone());
        let listen = move || {
            let mut coming = None;
            while let Some((word, fds)) = hear(&socket) {
                let heard = match (word, coming.take()) {
                    (Word::Take(handover), _) => collect(&mut coming, *handover, fds),
                    (Word::More, Some((handover, mut all))) => {
                        all.extend(fds);
                        collect(&mut coming, handover, all)
                    }
                    (word, _) => Some(Heard::Beyond(turn, word)),
                };
                if let Some(heard) = heard {
                    room.moves.tell(pid, heard);
                }
            }
            room.moves.tell(pid, Heard::Silence(turn));
        };
        let thread = std::thread::Builder::new().name("talk".into()).spawn(listen);
        thread.map(drop).map_err(|e| MoveError::Silent(format!("no thread to listen: {e}")))
    }

    /// Says a word to the other steward.
    pub fn say(&self, word: &Word) -> Result<(), MoveError> {
        let bytes = postcard::to_stdvec(word).map_err(|e| MoveError::Silent(e.to_string()))?;
        self.send(&bytes)
    }

    /// The first packet of all.
    pub fn send(&self, bytes: &[u8]) -> Result<(), MoveError> {
        Ok(socket::send(self.socket.as_fd(), &[IoSlice::new(bytes)], &[], 0)?)
    }

    /// Gives a deputy away. An error: the other does not have it.
    pub fn give(&self, handover: Handover, fds: &[BorrowedFd<'_>]) -> Result<(), MoveError> {
        self.say(&Word::Take(Box::new(handover)))?;
        let more = postcard::to_stdvec(&Word::More).map_err(|e| MoveError::Silent(e.to_string()))?;
        fds.chunks(socket::FDS_MAX)
            .try_for_each(|part| Ok(socket::send(self.socket.as_fd(), &[IoSlice::new(&more)], part, 0)?))
    }

    /// Says nothing more; the other, which hears it, may.
    pub fn end(&self) {
        // SAFETY: no memory is passed.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_WR) };
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // The listening thread has the socket too.
        // SAFETY: no memory is passed.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

fn hear(socket: &OwnedFd) -> Option<(Word, Vec<OwnedFd>)> {
    let (packet, fds) = socket::receive_whole(socket.as_fd(), PACKET_BYTES).ok()?;
    Some((postcard::from_bytes(&packet).ok()?, fds))
}

/// All descriptors are there, or those that are wait for the others.
fn collect(coming: &mut Option<(Handover, Vec<OwnedFd>)>, handover: Handover, fds: Vec<OwnedFd>) -> Option<Heard> {
    if fds.len() <= handover.threads.len() {
        *coming = Some((handover, fds));
        return None;
    }
    let mut fds = fds.into_iter();
    let pidfd = PidFd::from(fds.next()?);
    Some(Heard::Given(Box::new(Given { handover, pidfd, channels: fds.collect() })))
}
