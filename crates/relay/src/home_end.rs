//! The end of a stream at home: the true socket, which the process' deputy has too.

use crate::{CHUNK_BYTES, End, Frame, OutOfOrder, Receiving, Sending, StreamError, Turn};
use os::fds;
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendFlags};
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
    buffer: Vec<u8>,
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

    /// Gives the number of the process' bytes that wait for the socket.
    pub fn waiting_bytes(&self) -> usize {
        self.queue.len()
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
        loop {
            let credit = self.sending.credit().min(turn.credit);
            if self.has_ended || self.is_faulty || credit == 0 {
                return Ok(());
            }
            let ready = fds::ready(self.socket.as_fd());
            // Receiving would take the error away.
            if ready & libc::POLLERR as u16 != 0 {
                self.fail(turn);
                return Ok(());
            }
            let sent = self.sending.under_way() as usize;
            let wanted = credit.min(CHUNK_BYTES);
            let found = match self.peek(sent + wanted)? {
                Some(found) => found,
                None => return Ok(()),
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

    /// Looks at the first bytes of the socket. `None`: there are none, or the socket has an error.
    fn peek(&mut self, most: usize) -> Result<Option<usize>, StreamError> {
        let mut pieces = [IoSliceMut::new(&mut self.buffer[..most])];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recvmsg(&*self.socket, &mut pieces, &mut RecvAncillaryBuffer::default(), flags) {
            Ok(received) => Ok(Some(received.bytes)),
            Err(Errno::AGAIN) => Ok(None),
            Err(source) => Err(StreamError::Socket { doing: "looking at what a socket has received", source }),
        }
    }

    fn discard(&mut self, mut bytes: u64) -> Result<(), StreamError> {
        while bytes > 0 {
            let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.buffer.len());
            match rustix::net::recv(&*self.socket, &mut self.buffer[..most], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::AGAIN) => return Ok(()),
                Ok((n, _)) => bytes -= n as u64,
                Err(source) => return Err(StreamError::Socket { doing: "taking what a process has read", source }),
            }
        }
        Ok(())
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
                self.accept(bytes, accepted, turn)
            }
            Frame::Taken(upto) => {
                let news = self.sending.taken(upto)?;
                turn.credit += news as usize;
                self.discard(news)?;
                self.pass_in(turn)
            }
            Frame::End(offset) => Ok(self.receiving.end(offset)?),
            Frame::Fault => Ok(()),
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
