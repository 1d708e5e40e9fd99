//! A message that carries descriptors. The guest gets each as what it is: home is asked, before
//! they are given, which of them are regular files, whose stand-ins have an offset, and can be
//! mapped.

use crate::state::calls::message::incoming::{Incoming, OpenFile};
use crate::state::calls::message::{control, half};
use crate::state::guests::Who;
use room_protocol::message::Call;
use std::collections::HashMap;
use std::sync::Arc;

/// `struct stat` (asm/stat.h).
const STAT_BYTES: usize = 144;
const MODE_AT: usize = 24;

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
    pub incoming: Arc<Incoming>,
    pub result: i64,
    pub out: Vec<u8>,
    /// Numbers in the deputy that are still to be looked at; the last one is next.
    left: Vec<i32>,
    question: Question,
    file: OpenFile,
    pub files: HashMap<i32, OpenFile>,
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
}
