//! Messages between two stewards of one home while a process goes from the room of the one to
//! that of the other: over the socket of the one that it comes to.

use crate::migration::error::MoveError;
use crate::room::event::RoomEvent;
use crate::room::peer::{Given, Handover, StewardMessage};
use crate::room::state::Room;
use os::pidfd::PidFd;
use os::socket;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Largest packet, bytes.
pub const PACKET_BYTES: usize = 192 << 10;

/// A conversation: what the other end says is heard by the move of the process. It ends for the
/// other when this is dropped.
pub struct StewardLink {
    socket: Arc<OwnedFd>,
}

impl StewardLink {
    /// With the steward at this socket.
    pub fn begin(path: &Path) -> Result<StewardLink, MoveError> {
        Ok(StewardLink { socket: Arc::new(socket::connect(path)?) })
    }

    /// Over a socket that came.
    pub fn over(socket: OwnedFd) -> StewardLink {
        StewardLink { socket: Arc::new(socket) }
    }

    /// Has what comes told to the move of `pid`; `turn` is the number of the try, behind which
    /// nothing of an earlier one is taken for one of this.
    pub fn listen(&self, room: &Arc<Room>, pid: i32, turn: u32) -> Result<(), MoveError> {
        let (room, socket) = (room.clone(), self.socket.clone());
        let listen = move || {
            let mut coming = None;
            while let Some((word, fds)) = hear(&socket) {
                let heard = match (word, coming.take()) {
                    (StewardMessage::Take(handover), _) => collect(&mut coming, *handover, fds),
                    (StewardMessage::More, Some((handover, mut all))) => {
                        all.extend(fds);
                        collect(&mut coming, handover, all)
                    }
                    (word, _) => Some(RoomEvent::Peer(turn, word)),
                };
                if let Some(heard) = heard {
                    room.sessions.tell(pid, heard);
                }
            }
            room.sessions.tell(pid, RoomEvent::Silence(turn));
        };
        let thread = std::thread::Builder::new().name("talk".into()).spawn(listen);
        thread.map(drop).map_err(|e| MoveError::Silent(format!("no thread to listen: {e}")))
    }

    /// Says a word to the other steward.
    pub fn say(&self, word: &StewardMessage) -> Result<(), MoveError> {
        let bytes = postcard::to_stdvec(word).map_err(|e| MoveError::Silent(e.to_string()))?;
        self.send(&bytes)
    }

    /// The first packet of all.
    pub fn send(&self, bytes: &[u8]) -> Result<(), MoveError> {
        Ok(socket::send(self.socket.as_fd(), &[IoSlice::new(bytes)], &[], 0)?)
    }

    /// Gives a deputy away. An error: the other does not have it.
    pub fn give(&self, handover: Handover, fds: &[BorrowedFd<'_>]) -> Result<(), MoveError> {
        self.say(&StewardMessage::Take(Box::new(handover)))?;
        let more = postcard::to_stdvec(&StewardMessage::More).map_err(|e| MoveError::Silent(e.to_string()))?;
        fds.chunks(socket::FDS_MAX)
            .try_for_each(|part| Ok(socket::send(self.socket.as_fd(), &[IoSlice::new(&more)], part, 0)?))
    }

    /// Says nothing more; the other, which hears it, may.
    pub fn end(&self) {
        // SAFETY: no memory is passed.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_WR) };
    }
}

impl Drop for StewardLink {
    fn drop(&mut self) {
        // The listening thread has the socket too.
        // SAFETY: no memory is passed.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

fn hear(socket: &OwnedFd) -> Option<(StewardMessage, Vec<OwnedFd>)> {
    let (packet, fds) = socket::receive_whole(socket.as_fd(), PACKET_BYTES).ok()?;
    Some((postcard::from_bytes(&packet).ok()?, fds))
}

/// All descriptors are there, or those that are wait for the others.
fn collect(coming: &mut Option<(Handover, Vec<OwnedFd>)>, handover: Handover, fds: Vec<OwnedFd>) -> Option<RoomEvent> {
    if fds.len() <= handover.threads.len() {
        *coming = Some((handover, fds));
        return None;
    }
    let mut fds = fds.into_iter();
    let pidfd = PidFd::from(fds.next()?);
    Some(RoomEvent::Given(Box::new(Given { handover, pidfd, channels: fds.collect() })))
}

/// Reads a refusal of the other steward as an error.
pub fn check_refused(message: StewardMessage) -> Result<(), MoveError> {
    match message {
        StewardMessage::Failed { why } => Err(MoveError::Room(why)),
        StewardMessage::Retryable { why } => Err(MoveError::Retryable(why)),
        _ => Ok(()),
    }
}
