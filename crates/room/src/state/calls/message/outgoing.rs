//! Messages that a guest sends.

use super::*;
use crate::sandbox::guest_memory;
use crate::state::calls::message::control;
use crate::state::files::standins::device::Device;
use crate::state::guests::Who;
use room_protocol::message::{Call, StandinId};

/// A message on its way out. What does not fit a packet follows when the first part was sent: a
/// stream's blocking sender returns when all was taken.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The thread that sends.
    pub who: Who,
    host: HostTid,
    standin: StandinId,
    flags: u64,
    /// Bytes of the part under way.
    part: u64,
    rest: Vec<Piece>,
    /// Bytes that were sent before.
    sent: u64,
}

/// Where a message goes, and what with it.
#[derive(Debug)]
pub struct Envelope {
    /// The address of the peer.
    pub name: Piece,
    /// The control messages beside the data.
    pub control: Piece,
}

/// The thread that sends a message, and by which socket.
#[derive(Clone, Copy, Debug)]
pub struct MessageSender {
    /// TID of the thread on this node.
    pub host: HostTid,
    /// The same thread as home knows it.
    pub who: Who,
    /// The stand-in of the socket.
    pub standin: StandinId,
    /// The flags of the call.
    pub flags: u64,
}

impl Outgoing {
    /// Puts the call together that sends the first part. `Err`: error number, and why if it is
    /// tern's.
    pub fn first(
        standins: &Device,
        from: &MessageSender,
        envelope: &Envelope,
        pieces: &[Piece],
    ) -> Result<(Call, Outgoing), (i32, &'static str)> {
        let MessageSender { host, who, standin, flags } = *from;
        let (part, rest) = split(pieces, PAYLOAD_BYTES_MAX as u64);
        let outgoing = Outgoing { who, host, standin, flags, part: total(&part), rest, sent: 0 };
        Ok((outgoing.call(Some((standins, envelope)), &part)?, outgoing))
    }

    /// There is more to send than one packet holds.
    pub fn is_part(&self) -> bool {
        !self.rest.is_empty() || self.sent > 0
    }

    /// The call that sends the next part, if the last one was sent wholly and there is one.
    pub fn next(&mut self, result: i64) -> Option<Result<Call, i32>> {
        if self.rest.is_empty() || u64::try_from(result).ok()? < self.part {
            return None;
        }
        self.sent += self.part;
        let (part, rest) = split(&self.rest, PAYLOAD_BYTES_MAX as u64);
        (self.part, self.rest) = (total(&part), rest);
        Some(self.call(None, &part).map_err(|(errno, _)| errno))
    }

    /// What the guest's call returns when the last part did.
    pub fn total(&self, result: i64) -> i64 {
        match (u64::try_from(result), self.sent) {
            (Ok(n), sent) => sent.saturating_add(n) as i64,
            (Err(_), 0) => result,
            (Err(_), sent) => sent as i64,
        }
    }

    fn call(&self, first: Option<(&Device, &Envelope)>, part: &[Piece]) -> Result<Call, (i32, &'static str)> {
        let fault = |_| (libc::EFAULT, "");
        let mut call = Call { pointers: 0b10, standin: Some(self.standin), ..Call::new(libc::SYS_sendmsg, [0; 6]) };
        call.args[2] = self.flags;
        call.data = vec![0; NAME_AT];
        call.inner = vec![IOV as u32, IOV_AT as u32];
        if let Some((standins, Envelope { name, control })) = first {
            if name.bytes > 0 {
                call.inner.push(NAME as u32);
                put(&mut call.data, NAME, NAME_AT as u64);
                put(&mut call.data, NAME_BYTES, name.bytes);
                append(&mut call.data, self.host, *name).map_err(fault)?;
            }
            if control.bytes > CONTROL_BYTES_MAX as u64 {
                return Err((libc::ENOBUFS, "control messages of more than 16 KiB"));
            }
            if control.bytes > 0 {
                let at = call.data.len();
                call.inner.push(CONTROL as u32);
                put(&mut call.data, CONTROL, at as u64);
                put(&mut call.data, CONTROL_BYTES, control.bytes);
                append(&mut call.data, self.host, *control).map_err(fault)?;
                call.passed = control::pass(standins, self.host, &mut call.data, at)?;
            }
        }
        put(&mut call.data, IOV, IOV_AT as u64);
        put(&mut call.data, IOV_COUNT, 1);
        let at = call.data.len() as u64;
        put(&mut call.data, IOV_AT, at);
        put(&mut call.data, IOV_AT + 8, total(part));
        for piece in part {
            append(&mut call.data, self.host, *piece).map_err(fault)?;
        }
        Ok(call)
    }
}

/// A guest's memory, behind what is there.
fn append(data: &mut Vec<u8>, host: HostTid, piece: Piece) -> os::Result<()> {
    let at = data.len();
    data.resize(at + piece.bytes as usize, 0);
    guest_memory::read(host.0, piece.at, &mut data[at..])
}
