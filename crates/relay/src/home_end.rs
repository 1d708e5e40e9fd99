//! The end of a stream at home: the true socket, which the process' deputy has too.

use crate::{CHUNK_BYTES, End, Frame, OutOfOrder, Receiving, Sending, StreamError, Turn};
use os::fds;
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes that a leaving process may have written beyond its credit: what the buffers of a
/// pair hold (net.core.wmem_max is at most this, or the process has enlarged it on purpose).
const LAST_BYTES_MAX: u64 = 64 << 20;

/// The true socket, and what is under way.
#[derive(Debug)]
pub struct HomeEnd {
    socket: Arc<OwnedFd>,
    sending: Sending,
    receiving: Receiving,
    /// Bytes of the process that the socket has no room for yet.
    queue: VecDeque<u8>,
    /// The number of the process' bytes that the socket has.
    written: u64,
    /// The room was told that nothing more comes.
    has_ended: bool,
    /// The room was told of an error: the socket is touched no more.
    is_faulty: bool,
    /// The room sends nothing behind this number of bytes, for now.
    held_at: Option<u64>,
    /// The room was told to hold the stream, and not to go on since.
    wants_hold: bool,
    /// The number of times that the room was told to hold the stream and has not answered.
    unanswered_holds: u32,
    /// The stream's bytes go by another way than home's, or have yet to be accounted for.
    crossing: Option<Crossing>,
    /// The number of bytes that the process has read, and that have yet to come to the socket.
    owed: u64,
    buffer: Vec<u8>,
}

/// The accounts that the rooms of a connection's two ends gave when their bytes began to come home.
#[derive(Clone, Copy, Debug, Default)]
struct Crossing {
    /// The number of bytes that the process' room has received.
    received: u64,
    own: Option<Part>,
    peers: Option<Part>,
    /// The newest number of bytes that the process has taken, in home's account.
    taken: u64,
}

/// One room's account of the bytes that it sent to the room of a stream's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of bytes that the process of the peer's room has taken for certain: the room
    /// sends home those behind these.
    pub taken: u64,
}

/// The bytes that wait in a stream, as its home end knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Bytes that the room was sent and that the process has not taken.
    pub under_way: u64,
    /// The most of these.
    pub window: u64,
    /// Bytes that the process has taken since the stream began.
    pub taken: u64,
    /// Bytes of the process that the socket has no room for yet.
    pub waiting: u64,
    /// Bytes of the process that came since the stream began.
    pub received: u64,
}

/// The result of a look at a socket.
enum Peeked {
    /// So many bytes; 0 at the end of the stream.
    Bytes(usize),
    /// Nothing has come yet.
    Nothing,
    /// Something that is more than bytes.
    Odd,
}

impl HomeEnd {
    /// Takes a connected stream socket. `window`: the most bytes under way in each direction.
    pub fn new(socket: Arc<OwnedFd>, window: u32) -> HomeEnd {
        HomeEnd {
            socket,
            sending: Sending::new(window),
            receiving: Receiving::new(window),
            queue: VecDeque::new(),
            written: 0,
            has_ended: false,
            is_faulty: false,
            held_at: None,
            wants_hold: false,
            unanswered_holds: 0,
            crossing: None,
            owed: 0,
            // Peeking begins with the bytes that were peeked before.
            buffer: vec![0; window as usize + CHUNK_BYTES],
        }
    }

    /// Writes all that the process has written into the socket, whose buffer grows for it: the
    /// process goes on at home, where its next bytes come behind these.
    ///
    /// # Errors
    /// The socket failed.
    pub fn settle(&mut self) -> Result<(), StreamError> {
        self.pass_out()?;
        if self.queue.is_empty() {
            return Ok(());
        }
        let held = os::streams::unsent_bytes(self.socket.as_fd())?;
        let set = rustix::net::sockopt::socket_send_buffer_size(&*self.socket);
        // The kernel counts the memory of its messages, which is more than their bytes.
        os::streams::force_send_buffer(self.socket.as_fd(), 2 * (held + self.queue.len()) + (1 << 20))?;
        let done = self.pass_out();
        if let Ok(bytes) = set {
            // The kernel doubles what it is told.
            os::streams::force_send_buffer(self.socket.as_fd(), bytes / 2)?;
        }
        done
    }

    /// Tells whether the process has written its last byte, and the socket has it. Home makes the
    /// process' own shutdown(2) or close(2) then.
    pub fn has_all(&self) -> bool {
        self.receiving.is_ended() && self.queue.is_empty()
    }

    /// Tells whether a direction has ended, or the socket has an error.
    pub fn is_over(&self) -> bool {
        self.has_ended || self.is_faulty || self.receiving.is_ended()
    }

    /// Tells whether the room has answered [`Frame::Hold`].
    pub fn is_held(&self) -> bool {
        self.held_at.is_some()
    }

    /// Has the room hold the stream.
    pub fn hold(&mut self, turn: &mut Turn<'_>) {
        (self.held_at, self.wants_hold) = (None, true);
        self.unanswered_holds += 1;
        (turn.send)(Frame::Hold);
    }

    /// Lets the room send again, whether or not it has answered yet.
    pub fn release(&mut self, turn: &mut Turn<'_>) {
        (self.held_at, self.wants_hold) = (None, false);
        (turn.send)(Frame::Release);
    }

    /// Tells whether the room sends nothing more, and nothing of the stream is at home: neither
    /// here nor in the true socket, in any direction. The room has heard of all that was taken.
    pub fn is_quiet(&mut self, turn: &mut Turn<'_>) -> bool {
        self.receiving.take(self.written, turn.now);
        self.receiving.tell_along().into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
        // Else the kernel counts bytes as unsent for up to 40 ms that the peer's socket has.
        os::streams::acknowledge(self.socket.as_fd());
        let is_empty = |bytes: os::Result<usize>| bytes.is_ok_and(|bytes| bytes == 0);
        self.held_at == Some(self.receiving.received())
            && self.crossing.is_none()
            && self.owed == 0
            && self.queue.is_empty()
            && self.receiving.is_told()
            && !self.is_over()
            && self.sending.under_way() == 0
            && is_empty(os::streams::unread_bytes(self.socket.as_fd()))
            && is_empty(os::streams::unsent_bytes(self.socket.as_fd()))
            && fds::ready(self.socket.as_fd()) & (libc::POLLERR | libc::POLLRDHUP | libc::POLLPRI) as u16 == 0
    }

    /// Notes that the stream's bytes go to the room of its peer from here on.
    pub fn cross(&mut self) {
        (self.held_at, self.wants_hold) = (None, false);
        self.crossing = Some(Crossing::default());
    }

    /// Tells whether the stream's bytes go by another way, or have yet to be accounted for.
    pub fn is_crossing(&self) -> bool {
        self.crossing.is_some()
    }

    /// Takes what the room of the stream's peer said when it sent its bytes home again; `None`:
    /// that room is gone, and nothing more comes of it.
    ///
    /// # Errors
    /// The numbers of the two rooms do not fit.
    pub fn peer_parted(&mut self, part: Option<Part>, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        let Some(crossing) = &mut self.crossing else { return Ok(()) };
        crossing.peers = Some(part.unwrap_or(Part { taken: u64::MAX }));
        self.resume(turn)
    }

    /// Goes on once both rooms have said what they know.
    fn resume(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        let Some(Crossing { received, own: Some(_), peers: Some(peers), taken }) = self.crossing else { return Ok(()) };
        self.crossing = None;
        let before = self.sending.offset();
        let again = received.saturating_sub(peers.taken);
        if again > u64::from(self.sending.window()) {
            return Err(OutOfOrder::Taken { upto: peers.taken, taken: 0, sent: received }.into());
        }
        self.sending.resume(received, received - again);
        let least = before.saturating_add(received - again);
        let taken = taken.clamp(least, before.saturating_add(received));
        self.owed += self.sending.taken(taken)?;
        self.pass_in(turn)
    }

    /// Tells whether all is in the true socket, or was taken out of it, that was on other ways.
    pub fn is_settled(&mut self) -> bool {
        self.pay().is_err() || self.crossing.is_none() && self.owed == 0
    }

    /// Gives the number of the process' bytes that wait for the socket.
    pub fn waiting_bytes(&self) -> usize {
        self.queue.len()
    }

    /// Gives the account of the stream: what waits in either direction.
    pub fn account(&self) -> Account {
        let under_way = self.sending.under_way();
        Account {
            under_way,
            window: u64::from(self.sending.window()),
            taken: self.sending.offset() - under_way,
            waiting: self.queue.len() as u64,
            received: self.receiving.received(),
        }
    }

    fn pass_out(&mut self) -> Result<(), StreamError> {
        while !self.queue.is_empty() && !self.is_faulty {
            let (first, _) = self.queue.as_slices();
            match rustix::net::send(&*self.socket, first, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => {
                    self.queue.drain(..n);
                    self.written += n as u64;
                }
                Err(Errno::AGAIN) => break,
                Err(source) => return Err(StreamError::Socket { doing: "sending a process' bytes", source }),
            }
        }
        Ok(())
    }

    /// Sends the room what it has not been sent yet. Bytes stay in the socket.
    fn pass_in(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        if self.crossing.is_some() || self.pay()? > 0 {
            return Ok(());
        }
        loop {
            let credit = self.sending.credit().min(turn.credit);
            if self.has_ended || self.is_faulty || credit == 0 {
                return Ok(());
            }
            let ready = fds::ready(self.socket.as_fd());
            // Receiving would take the error away, and a pair of Unix sockets has no urgent byte.
            if ready & (libc::POLLERR | libc::POLLPRI) as u16 != 0 {
                self.fail(turn);
                return Ok(());
            }
            let sent = self.sending.under_way() as usize;
            let wanted = credit.min(CHUNK_BYTES);
            let found = match self.peek(sent + wanted)? {
                Peeked::Bytes(found) => found,
                Peeked::Nothing => return Ok(()),
                Peeked::Odd => {
                    self.fail(turn);
                    return Ok(());
                }
            };
            if found > sent {
                let bytes = &self.buffer[sent..found];
                let offset = self.sending.send(bytes.len());
                turn.credit -= bytes.len();
                (turn.send)(Frame::Data { offset, bytes });
            } else if found == sent && ready & (libc::POLLRDHUP | libc::POLLHUP) as u16 != 0 {
                self.has_ended = true;
                (turn.send)(Frame::End(self.sending.offset()));
            }
            if found < sent + wanted {
                return Ok(());
            }
        }
    }

    fn fail(&mut self, turn: &mut Turn<'_>) {
        self.is_faulty = true;
        (turn.send)(Frame::Fault);
    }

    /// Looks at the first bytes of the socket.
    fn peek(&mut self, most: usize) -> Result<Peeked, StreamError> {
        let mut pieces = [IoSliceMut::new(&mut self.buffer[..most])];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recvmsg(&*self.socket, &mut pieces, &mut RecvAncillaryBuffer::default(), flags) {
            // Descriptors or credentials came with them (unix(7)), which only a call at home gives.
            Ok(received) if received.flags.contains(ReturnFlags::CTRUNC) => Ok(Peeked::Odd),
            Ok(received) => Ok(Peeked::Bytes(received.bytes)),
            Err(Errno::AGAIN) => Ok(Peeked::Nothing),
            Err(source) => Err(StreamError::Socket { doing: "looking at what a socket has received", source }),
        }
    }

    /// Takes what the process has read out of the socket. Gives the number of bytes of it that have
    /// not come there yet: another room sent them to the process before.
    fn pay(&mut self) -> Result<u64, StreamError> {
        while self.owed > 0 {
            let most = usize::try_from(self.owed).unwrap_or(usize::MAX).min(self.buffer.len());
            match rustix::net::recv(&*self.socket, &mut self.buffer[..most], RecvFlags::DONTWAIT) {
                // They will not come.
                Ok((0, _)) => self.owed = 0,
                Err(Errno::AGAIN) => break,
                Ok((n, _)) => self.owed -= n as u64,
                Err(source) => {
                    self.owed = 0;
                    return Err(StreamError::Socket { doing: "taking what a process has read", source });
                }
            }
        }
        Ok(self.owed)
    }

    fn accept(
        &mut self,
        bytes: &[u8],
        accepted: Result<(), OutOfOrder>,
        turn: &mut Turn<'_>,
    ) -> Result<(), StreamError> {
        accepted?;
        self.queue.extend(bytes);
        if self.pass_out().is_err() && !self.is_faulty {
            self.fail(turn);
        }
        Ok(())
    }

    fn tell(&mut self, turn: &mut Turn<'_>) {
        self.receiving.take(self.written, turn.now);
        self.receiving.tell(turn.now).into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
    }
}

impl End for HomeEnd {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn advance(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        if self.pass_out().is_err() && !self.is_faulty {
            self.fail(turn);
        }
        self.pass_in(turn)?;
        self.tell(turn);
        Ok(())
    }

    fn obey(&mut self, frame: Frame<'_>, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        match frame {
            Frame::Data { offset, bytes } => {
                let accepted = self.receiving.receive(offset, bytes.len());
                self.accept(bytes, accepted, turn)?;
                self.tell(turn);
                Ok(())
            }
            Frame::Last { offset, bytes } => {
                let accepted = self.receiving.receive_last(offset, bytes.len(), LAST_BYTES_MAX);
                self.accept(bytes, accepted, turn)?;
                self.tell(turn);
                Ok(())
            }
            Frame::Taken(upto) => {
                if let Some(crossing) = &mut self.crossing {
                    crossing.taken = crossing.taken.max(upto);
                    return Ok(());
                }
                let news = self.sending.taken(upto)?;
                turn.credit += news as usize;
                self.owed += news;
                self.pass_in(turn)
            }
            Frame::Received(upto) => {
                self.crossing.iter_mut().for_each(|crossing| crossing.received = upto);
                Ok(())
            }
            Frame::Parted(taken) => {
                let Some(crossing) = &mut self.crossing else { return Ok(()) };
                crossing.own = Some(Part { taken });
                self.resume(turn)
            }
            Frame::End(offset) => Ok(self.receiving.end(offset)?),
            Frame::Held(offset) => {
                // An answer to an earlier frame says nothing of what the room sends now.
                self.unanswered_holds = self.unanswered_holds.saturating_sub(1);
                self.held_at = (self.wants_hold && self.unanswered_holds == 0).then_some(offset);
                Ok(())
            }
            Frame::Fault | Frame::Open(_) | Frame::Close => Ok(()),
            Frame::Hold | Frame::Join(_) | Frame::Release => Ok(()),
            Frame::Way(_) | Frame::Across(_) | Frame::Await(_) | Frame::Crossed => Ok(()),
            Frame::Part | Frame::Closed | Frame::Fenced(_) => Ok(()),
        }
    }

    fn due(&self) -> Option<Duration> {
        self.receiving.due()
    }

    fn under_way(&self) -> u64 {
        self.sending.under_way()
    }

    fn credit(&self) -> usize {
        if self.has_ended || self.is_faulty { 0 } else { self.sending.credit() }
    }
}
