//! A message that carries descriptors. The guest gets each as what it is: home is asked, before
//! they are given, which of them are regular files, whose stand-ins have an offset, and can be
//! mapped.

use super::super::after::{After, adopted};
use super::super::guests::{Waiting, Who};
use super::super::shared::Shared;
use super::super::spares::Spare;
use super::{Incoming, control, half};
use os::ptrace::HostTid;
use room_protocol::message::Call;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

/// `struct stat` (asm/stat.h).
const STAT_BYTES: usize = 144;
const MODE_AT: usize = 24;

/// An open regular file of home's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFile {
    offset: u64,
    flags: i32,
}

/// What is asked of a descriptor next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Offset,
    Kind,
    Flags,
}

/// A message that has come, whose descriptors are looked at one after the other.
#[derive(Clone, Debug)]
pub struct Received {
    incoming: Arc<Incoming>,
    result: i64,
    out: Vec<u8>,
    /// Numbers in the deputy that are still to be looked at; the last one is next.
    left: Vec<i32>,
    question: Question,
    file: OpenFile,
    files: HashMap<i32, OpenFile>,
}

impl Received {
    /// The message, if it carries any.
    pub fn of(incoming: &Arc<Incoming>, result: i64, out: &[u8]) -> Option<Received> {
        let left = control::numbers(&incoming.control_of(out));
        let (incoming, out, file) = (incoming.clone(), out.to_vec(), OpenFile::default());
        let new = || Received { incoming, result, out, left, question: Question::Offset, file, files: HashMap::new() };
        (result >= 0).then(new).filter(|received| !received.left.is_empty())
    }

    /// The thread whose deputy has them.
    pub fn who(&self) -> Who {
        self.incoming.who
    }

    /// The next call that asks home; none when all is known.
    pub fn ask(&self) -> Option<Call> {
        let fd = *self.left.last()? as u64;
        Some(match self.question {
            Question::Offset => Call::new(libc::SYS_lseek, [fd, 0, libc::SEEK_CUR as u64, 0, 0, 0]),
            Question::Kind => {
                let call = Call::new(libc::SYS_fstat, [fd, 0, 0, 0, 0, 0]);
                Call { pointers: 0b10, data: vec![0; STAT_BYTES], out_bytes: STAT_BYTES as u32, ..call }
            }
            Question::Flags => Call::new(libc::SYS_fcntl, [fd, libc::F_GETFL as u64, 0, 0, 0, 0]),
        })
    }

    /// Home has answered. What has no offset is no regular file.
    pub fn hear(&mut self, result: i64, out: &[u8]) {
        let is_file = || out.len() == STAT_BYTES && half(out, MODE_AT) & libc::S_IFMT == libc::S_IFREG;
        match (self.question, u64::try_from(result)) {
            (Question::Offset, Ok(offset)) => (self.question, self.file.offset) = (Question::Kind, offset),
            (Question::Kind, Ok(_)) if is_file() => self.question = Question::Flags,
            (Question::Flags, Ok(flags)) => {
                self.file.flags = flags as i32;
                let found = self.left.pop().map(|fd| (fd, self.file));
                self.files.extend(found);
                self.question = Question::Offset;
            }
            _ => {
                self.left.pop();
                self.question = Question::Offset;
            }
        }
    }

    /// Gives the guest all of it.
    pub fn deliver(self, room: &Shared, host: HostTid, waiting: Option<&Waiting>) -> i64 {
        let incoming = Incoming { files: self.files, ..(*self.incoming).clone() };
        incoming.deliver(room, host, waiting, self.result, &self.out)
    }

    /// What follows from the next answer.
    pub fn then(self) -> After {
        After::Looking(Box::new(self))
    }
}

/// Makes a stand-in of a regular file that home has under this number for a guest.
pub fn adopt_file(room: &Shared, who: Who, fd: i32, OpenFile { offset, flags }: OpenFile) -> Option<Spare> {
    let spare = room.spares.take_for_file()?;
    let there = libc::O_APPEND | libc::O_NONBLOCK;
    let set = os::fds::set_flags(spare.file.as_fd(), there, flags & there);
    set.unwrap_or_else(|e| tracing::warn!("flags of a stand-in: {e}"));
    let at = rustix::fs::SeekFrom::Start(offset);
    rustix::fs::seek(&spare.file, at).map_or_else(|e| tracing::warn!("a stand-in's offset: {e}"), drop);
    room.standins.files.begins(spare.standin, offset);
    Some(adopted(room, who, fd, spare))
}
