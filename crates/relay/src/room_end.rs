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
    buffer: Vec<u8>,
}

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
            buffer: vec![0; CHUNK_BYTES],
        })
    }

    /// Sends all that the process has written, whatever the credit is: the process stands still and
    /// leaves the room. `unread`: the bytes that lie in the process' end of the pair, unread. Gives
    /// home the number of bytes that the process has read.
    ///
    /// # Errors
    /// A socket failed.
    pub fn send_all(&mut self, unread: usize, turn: &mut Turn<'_>) -> Result<(), StreamError> {
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
        let read = self.consumption.written().saturating_sub(unread as u64);
        self.receiving.take(read, turn.now);
        self.receiving.tell_along().into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
        Ok(())
    }

    /// Receives into the buffer. `Some(0)`: nothing more will come; `None`: nothing is there now.
    fn receive(&mut self, most: usize) -> Result<Option<usize>, StreamError> {
        let most = most.min(self.buffer.len());
        match rustix::net::recv(&self.pair, &mut self.buffer[..most], RecvFlags::DONTWAIT) {
            Ok((n, _)) => Ok(Some(n)),
            Err(Errno::AGAIN) => Ok(None),
            // The process closed its end and left bytes unread there.
            Err(Errno::CONNRESET) => Ok(Some(0)),
            Err(source) => Err(StreamError::Socket { doing: "receiving from a process", source }),
        }
    }

    fn end(&mut self, turn: &mut Turn<'_>) {
        self.has_ended = true;
        (turn.send)(Frame::End(self.sending.offset()));
    }

    fn pass_out(&mut self, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        while !self.has_ended {
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
            let (first, _) = self.queue.as_slices();
            let most = first.len().min(Consumption::BYTES_MAX);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            self.consumption.look(os::streams::unsent_bytes(self.pair.as_fd())?);
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
        let read = self.consumption.look(os::streams::unsent_bytes(self.pair.as_fd())?);
        self.receiving.take(read, turn.now);
        self.receiving.tell(turn.now).into_iter().for_each(|upto| (turn.send)(Frame::Taken(upto)));
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
        self.tell(turn)
    }

    fn obey(&mut self, frame: Frame<'_>, turn: &mut Turn<'_>) -> Result<(), StreamError> {
        match frame {
            Frame::Data { offset, bytes } | Frame::Last { offset, bytes } => {
                self.receiving.receive(offset, bytes.len())?;
                self.queue.extend(bytes);
                self.pass_in()
            }
            Frame::End(offset) => {
                self.receiving.end(offset)?;
                self.pass_in()
            }
            Frame::Taken(upto) => {
                turn.credit += self.sending.taken(upto)? as usize;
                self.pass_out(turn)?;
                self.tell(turn)
            }
            Frame::Fault => Err(StreamError::Fault),
        }
    }

    fn due(&self) -> Option<Duration> {
        self.receiving.due()
    }

    fn under_way(&self) -> u64 {
        self.sending.under_way()
    }

    fn credit(&self) -> usize {
        if self.has_ended { 0 } else { self.sending.credit() }
    }
}
