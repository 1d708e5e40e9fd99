//! The end of a stream in the room: the other end of the pair that the process has.

use crate::{CHUNK_BYTES, Consumption, End, Frame, Receiving, Sending, StreamError, Turn};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The pair's end that the process does not have, and what is under way.
#[derive(Debug)]
pub struct RoomEnd {
    pair: OwnedFd,
    sending: Sending,
    receiving: Receiving,
    consumption: Consumption,
    /// Bytes that came and that the pair has no room for yet.
    queue: VecDeque<u8>,
    /// The end of the stream was passed on to the process.
    is_shut: bool,
    /// The process has written its last byte: it closed its end, or shut its direction.
    has_ended: bool,
    /// The process shut its direction of writing (shutdown(2)), and may have its end still.
    has_shut: bool,
    /// The process closed its end, and left bytes unread there.
    left_unread: bool,
    /// Home wants nothing more for now.
    is_held: bool,
    /// The accounts with home, while the process' bytes do not go home.
    with_home: Option<HomeAccounts>,
    /// Bytes that were sent to another room, and that the process there has not taken for certain.
    kept: Option<VecDeque<u8>>,
    buffer: Vec<u8>,
}

/// The accounts with home of a stream that is joined to another one of its room, or another room.
#[derive(Debug)]
struct HomeAccounts {
    sending: Sending,
    receiving: Receiving,
    /// The number of bytes that the process had read before.
    read: u64,
}

/// The bytes that a process' peer in the same room has not read.
pub type Unread = Vec<u8>;

impl RoomEnd {
    /// Takes the end of a pair. `window`: the most bytes under way in each direction.
    ///
    /// # Errors
    /// The kernel refuses a size of the pair's buffers.
    pub fn new(pair: OwnedFd, window: u32) -> Result<RoomEnd, StreamError> {
        // The kernel tells of bytes that were read only while a quarter of the buffer is free
        // (unix_writable in net/unix/af_unix.c): so the buffer is never filled.
        os::streams::force_send_buffer(pair.as_fd(), 4 * window as usize)?;
        Ok(RoomEnd {
            pair,
            sending: Sending::new(window),
            receiving: Receiving::new(window),
            consumption: Consumption::default(),
            queue: VecDeque::new(),
            is_shut: false,
            has_ended: false,
            has_shut: false,
            left_unread: false,
            is_held: false,
            with_home: None,
            kept: None,
            buffer: vec![0; CHUNK_BYTES],
        })
    }

    /// Notes that the process shuts its direction of writing, and sends all that it has written,
    /// whatever the credit is: home shuts the true socket next.
    ///
    /// # Errors
    /// A socket failed.
    pub fn shut(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        self.has_shut = true;
        self.send_last(turn)
    }

    /// Begins to exchange bytes with the other end of the connection, which is in the same room.
    /// Home holds nothing of the stream ([`HomeEnd::is_quiet`](crate::HomeEnd::is_quiet)).
    pub fn join(&mut self) {
        let window = self.sending.window();
        let (sending, receiving) = (Sending::new(window), Receiving::new(window));
        self.with_home = Some(HomeAccounts {
            sending: std::mem::replace(&mut self.sending, sending),
            receiving: std::mem::replace(&mut self.receiving, receiving),
            read: self.consumption.written(),
        });
        self.is_held = false;
    }

    /// Begins to exchange bytes with the other end of the connection, which is in another room.
    /// Home holds nothing of the stream. The process' bytes wait until [`Frame::Release`] comes.
    pub fn cross(&mut self) {
        self.join();
        self.is_held = true;
        self.kept = Some(VecDeque::new());
    }

    /// Ends what [`RoomEnd::cross`] began: the bytes that the process wrote, and that the one in
    /// the other room has not taken for certain, go home. Bytes that came from there stay with the
    /// process; home, where they come again, is told how many these are.
    pub fn part(&mut self, turn: &mut Turn<'_>) {
        let (Some(home), Some(kept)) = (self.with_home.take(), self.kept.take()) else { return };
        self.is_held = false;
        let sending = std::mem::replace(&mut self.sending, home.sending);
        let received = std::mem::replace(&mut self.receiving, home.receiving);
        self.receiving.resume(&received);
        (turn.send)(Frame::Received(received.received()));
        (turn.send)(Frame::Parted(sending.offset() - sending.under_way()));
        (turn.send)(Frame::Taken(self.receiving.told()));
        for bytes in Vec::from(kept).chunks(CHUNK_BYTES) {
            let offset = self.sending.send(bytes.len());
            (turn.send)(Frame::Last { offset, bytes });
        }
        if self.has_ended {
            (turn.send)(Frame::End(self.sending.offset()));
        }
    }

    /// Tells whether both directions are open.
    pub fn is_whole(&self) -> bool {
        !self.has_ended && !self.has_shut && !self.is_shut && !self.receiving.is_ended()
    }

    /// Tells whether the process' bytes go to the other end of the connection, and not home.
    pub fn is_joined(&self) -> bool {
        self.with_home.is_some()
    }

    /// Lets the process' bytes go again.
    pub fn release(&mut self) {
        self.is_held = false;
    }

    /// Ends what [`RoomEnd::join`] began. The process stands still; `in_pair` was left unread in
    /// its end. Gives all that the process has not read, and what it has written and nobody got.
    ///
    /// # Errors
    /// A socket failed.
    pub fn split(&mut self, in_pair: Unread) -> Result<(Unread, Vec<u8>), StreamError> {
        if let Some(HomeAccounts { sending, receiving, .. }) = self.with_home.take() {
            (self.sending, self.receiving) = (sending, receiving);
        }
        let mut unread = in_pair;
        unread.extend(self.queue.drain(..));
        let mut written = Vec::new();
        while !self.has_ended {
            match self.receive(CHUNK_BYTES)? {
                Some(0) => self.has_ended = true,
                Some(n) => written.extend_from_slice(&self.buffer[..n]),
                None => break,
            }
        }
        Ok((unread, written))
    }

    /// Sends home bytes that the process wrote and its peer in the same room has not read.
    pub fn give_back(&mut self, bytes: &[u8], turn: &mut Turn<'_>) {
        for bytes in bytes.chunks(CHUNK_BYTES) {
            let offset = self.sending.send(bytes.len());
            (turn.send)(Frame::Last { offset, bytes });
        }
        if self.has_ended {
            (turn.send)(Frame::End(self.sending.offset()));
        }
    }

    /// Gives the number of bytes that the process has read since the account that counts them
    /// began.
    fn since_begin(&self, read: u64) -> u64 {
        read.saturating_sub(self.with_home.as_ref().map_or(0, |home| home.read))
    }

    /// Sends all that the process has written, whatever the credit is: the process stands still and
    /// leaves the room. `unread`: the bytes that lie in the process' end of the pair, unread. Gives
    /// home the number of bytes that the process has read.
    ///
    /// # Errors
    /// A socket failed.
    pub fn send_all(&mut self, unread: usize, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        self.send_last(turn)?;
        let read = self.consumption.written().saturating_sub(unread as u64);
        self.receiving.take(self.since_begin(read), turn.now);
        self.receiving.tell_along().into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
        Ok(())
    }

    fn send_last(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        while !self.has_ended {
            match self.receive(CHUNK_BYTES)? {
                Some(0) => self.end(turn),
                Some(n) => {
                    let offset = self.sending.send(n);
                    (turn.send)(Frame::Last { offset, bytes: &self.buffer[..n] });
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Tells whether no process has the other end of the pair any more. This cannot be told when
    /// both directions were shut before.
    fn is_closed(&self) -> bool {
        let is_shut_twice = self.is_shut && self.has_shut;
        !is_shut_twice && os::fds::ready(self.pair.as_fd()) & libc::POLLHUP as u16 != 0
    }

    /// Gives the number of bytes that the process has read for certain.
    fn read_bytes(&mut self) -> Result<u64, StreamError> {
        let memory = os::streams::unsent_bytes(self.pair.as_fd())?;
        // The kernel frees what a process has not read when that closes its end.
        Ok(if self.is_closed() { self.consumption.read() } else { self.consumption.look(memory) })
    }

    /// Reports that the stream is over.
    fn check_over(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        if self.is_closed() && self.kept.is_some() {
            // Home gets all else when the stream has parted.
            return Err(StreamError::Closed);
        }
        if self.is_closed() {
            self.send_last(turn)?;
            // The kernel tells of bytes that were left unread by an error of the other end
            // (unix_release_sock in net/unix/af_unix.c).
            if !self.left_unread && os::fds::ready(self.pair.as_fd()) & libc::POLLERR as u16 == 0 {
                let read = self.since_begin(self.consumption.written());
                self.receiving.take(read, turn.now);
                self.receiving.tell_along().into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
            }
            return Err(StreamError::Closed);
        }
        if self.is_shut && self.has_shut { Err(StreamError::Ended) } else { Ok(()) }
    }

    /// Receives into the buffer. `Some(0)`: nothing more will come; `None`: nothing is there now.
    fn receive(&mut self, most: usize) -> Result<Option<usize>, StreamError> {
        let most = most.min(self.buffer.len());
        match rustix::net::recv(&self.pair, &mut self.buffer[..most], RecvFlags::DONTWAIT) {
            Ok((n, _)) => Ok(Some(n)),
            Err(Errno::AGAIN) => Ok(None),
            // The process closed its end and left bytes unread there.
            Err(Errno::CONNRESET) => {
                self.left_unread = true;
                Ok(Some(0))
            }
            Err(source) => Err(StreamError::Socket { doing: "receiving from a process", source }),
        }
    }

    fn end(&mut self, turn: &mut Turn<'_>) {
        self.has_ended = true;
        if self.kept.is_none() {
            (turn.send)(Frame::End(self.sending.offset()));
        }
    }

    fn pass_out(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        while !self.has_ended && !self.is_held {
            let credit = self.sending.credit().min(turn.credit);
            if credit == 0 {
                break;
            }
            match self.receive(credit)? {
                Some(0) => self.end(turn),
                Some(n) => {
                    self.receiving.tell_along().into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
                    let offset = self.sending.send(n);
                    turn.credit -= n;
                    self.kept.iter_mut().for_each(|kept| kept.extend(&self.buffer[..n]));
                    (turn.send)(Frame::Data { offset, bytes: &self.buffer[..n] });
                    if n < credit.min(self.buffer.len()) {
                        break;
                    }
                }
                None => break,
            }
        }
        Ok(())
    }

    fn pass_in(&mut self) -> Result<(), StreamError> {
        while !self.queue.is_empty() {
            self.read_bytes()?;
            let (first, _) = self.queue.as_slices();
            let most = first.len().min(Consumption::BYTES_MAX);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.pair, &first[..most], flags) {
                Ok(n) => {
                    self.queue.drain(..n);
                    self.consumption.write(n, os::streams::unsent_bytes(self.pair.as_fd())?);
                }
                Err(Errno::AGAIN) => return Ok(()),
                // The process closed its end, and will never read them.
                Err(Errno::PIPE | Errno::CONNRESET) => self.queue.clear(),
                Err(source) => return Err(StreamError::Socket { doing: "sending to a process", source }),
            }
        }
        if self.receiving.is_ended() && !self.is_shut {
            self.is_shut = true;
            let _ = rustix::net::shutdown(&self.pair, Shutdown::Write);
        }
        Ok(())
    }

    fn tell(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        let read = self.read_bytes()?;
        self.receiving.take(self.since_begin(read), turn.now);
        // Home waits for it while the stream is held.
        let news = if self.is_held { self.receiving.tell_along() } else { self.receiving.tell(turn.now) };
        news.into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
        Ok(())
    }
}

impl End for RoomEnd {
    fn socket(&self) -> BorrowedFd<'_> {
        self.pair.as_fd()
    }

    fn advance(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        self.pass_in()?;
        self.pass_out(turn)?;
        self.tell(turn)?;
        self.check_over(turn)
    }

    fn obey(&mut self, frame: Frame<'_>, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        match frame {
            Frame::Data { offset, bytes } | Frame::Last { offset, bytes } => {
                self.receiving.receive(offset, bytes.len())?;
                self.queue.extend(bytes);
                self.pass_in()?;
                self.check_over(turn)
            }
            Frame::End(offset) => {
                self.receiving.end(offset)?;
                self.pass_in()?;
                self.check_over(turn)
            }
            Frame::Taken(upto) => {
                let news = self.sending.taken(upto)? as usize;
                turn.credit += news;
                self.kept.iter_mut().for_each(|kept| drop(kept.drain(..news.min(kept.len()))));
                self.pass_out(turn)?;
                self.tell(turn)
            }
            Frame::Fault => Err(StreamError::Fault),
            // Home did not know yet that the streams are joined.
            Frame::Hold if self.is_joined() => Ok(()),
            Frame::Hold => {
                self.is_held = true;
                (turn.send)(Frame::Held(self.sending.offset()));
                self.tell(turn)
            }
            Frame::Release => {
                self.release();
                self.pass_out(turn)
            }
            // The room's, not the stream's.
            Frame::Open(_) | Frame::Close | Frame::Held(_) | Frame::Join(_) => Ok(()),
            Frame::Way(_) | Frame::Across(_) | Frame::Await(_) | Frame::Crossed | Frame::Part => Ok(()),
            Frame::Received(_) | Frame::Parted(_) | Frame::Closed | Frame::Fenced(_) => Ok(()),
        }
    }

    fn due(&self) -> Option<Duration> {
        self.receiving.due()
    }

    fn under_way(&self) -> u64 {
        self.sending.under_way()
    }

    fn credit(&self) -> usize {
        if self.has_ended || self.is_held { 0 } else { self.sending.credit() }
    }
}
