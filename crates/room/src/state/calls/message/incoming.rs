//! Messages that a guest receives.

use super::*;
use crate::state::guests::Who;
use room_protocol::message::{Call, StandinId};
use std::collections::HashMap;

/// Where the parts of a received message go.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The thread that receives.
    pub who: Who,
    /// The buffers of the message.
    pub pieces: Vec<Piece>,
    /// Room for the sender's address.
    pub name: Piece,
    /// Room for control messages.
    pub control: Piece,
    /// Where the number of bytes of the sender's address goes (recvfrom); else all goes into a
    /// msghdr.
    pub name_bytes_to: Option<u64>,
    /// The msghdr, if there is one.
    pub header_at: Option<u64>,
    /// Whether MSG_CMSG_CLOEXEC was given.
    pub close_on_exec: bool,
    /// Which of the deputy's new descriptors are regular files.
    pub files: HashMap<i32, OpenFile>,
}

impl Incoming {
    /// One that goes into this msghdr.
    pub fn of(header: Header, who: Who, flags: u64) -> Incoming {
        Incoming {
            who,
            pieces: header.pieces,
            name: header.name,
            control: header.control,
            name_bytes_to: None,
            header_at: Some(header.at),
            close_on_exec: flags & libc::MSG_CMSG_CLOEXEC as u64 != 0,
            files: HashMap::new(),
        }
    }

    fn control_room(&self) -> usize {
        self.control.bytes.min(CONTROL_BYTES_MAX as u64) as usize
    }

    fn payload_at(&self) -> usize {
        NAME_AT + NAME_BYTES_MAX + self.control_room().next_multiple_of(8)
    }

    fn payload_room(&self) -> u64 {
        total(&self.pieces).min(PAYLOAD_BYTES_MAX as u64)
    }

    /// The call that receives it.
    pub fn call(&self, standin: StandinId, flags: u64) -> Call {
        let mut data = vec![0; NAME_AT];
        let mut inner = vec![IOV as u32, IOV_AT as u32];
        if self.name.at != 0 {
            inner.push(NAME as u32);
            put(&mut data, NAME, NAME_AT as u64);
            put(&mut data, NAME_BYTES, NAME_BYTES_MAX as u64);
        }
        if self.control.bytes > 0 {
            inner.push(CONTROL as u32);
            put(&mut data, CONTROL, (NAME_AT + NAME_BYTES_MAX) as u64);
            put(&mut data, CONTROL_BYTES, self.control_room() as u64);
        }
        put(&mut data, IOV, IOV_AT as u64);
        put(&mut data, IOV_COUNT, 1);
        put(&mut data, IOV_AT, self.payload_at() as u64);
        put(&mut data, IOV_AT + 8, self.payload_room());
        Call {
            pointers: 0b10,
            data,
            inner,
            standin: Some(standin),
            out_bytes: self.payload_at() as u32 + self.payload_room() as u32,
            out_per_result: 1,
            out_fixed: self.payload_at() as u32,
            ..Call::new(libc::SYS_recvmsg, [0, 0, flags, 0, 0, 0])
        }
    }

    /// The control messages that came.
    pub fn control_of(&self, out: &[u8]) -> Vec<u8> {
        let control_at = NAME_AT + NAME_BYTES_MAX;
        let came = if out.len() < control_at { 0 } else { word(out, CONTROL_BYTES) as usize };
        let bytes = came.min(self.control_room());
        out.get(control_at..control_at + bytes).unwrap_or(&[]).to_vec()
    }

    /// The payload's parts, and where they go.
    pub fn payload<'a>(&'a self, out: &'a [u8], result: i64) -> impl Iterator<Item = (u64, &'a [u8])> {
        let payload = out.get(self.payload_at()..).unwrap_or(&[]);
        let mut rest = &payload[..payload.len().min(result.max(0) as usize)];
        self.pieces.iter().map_while(move |piece| {
            let (part, behind) = rest.split_at(rest.len().min(piece.bytes as usize));
            rest = behind;
            (!part.is_empty()).then_some((piece.at, part))
        })
    }
}

/// An open regular file of home's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFile {
    pub offset: u64,
    pub flags: i32,
}
