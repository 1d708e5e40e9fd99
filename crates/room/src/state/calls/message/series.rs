//! Several messages by one call: sendmmsg(2) and recvmmsg(2), one after the other as the kernel
//! does it.

use super::*;
use crate::sandbox::guest_memory;
use crate::state::files::standins::device::Device;
use crate::state::guests::Who;
use room_protocol::message::{Call, StandinId};
use std::time::{Duration, Instant};

/// Bytes of a `struct mmsghdr`, and where in it the length of the message goes.
pub const ELEMENT_BYTES: u64 = 64;
pub const LENGTH: u64 = 56;

/// A call about several messages, at one of them.
#[derive(Clone, Debug)]
pub struct Series {
    /// Who makes it.
    pub who: Who,
    /// The stand-in of the socket.
    pub standin: StandinId,
    /// The flags of the call.
    pub flags: u64,
    /// Where the `struct mmsghdr`s lie.
    pub at: u64,
    /// How many are wanted.
    pub count: u64,
    /// So many are done.
    pub done: u64,
    /// When no more are waited for.
    pub deadline: Option<Instant>,
    pub step: Option<SeriesStep>,
}

#[derive(Clone, Debug)]
pub enum SeriesStep {
    Out(Outgoing),
    In(Incoming),
}

pub type Refusal = (i32, &'static str);

impl Series {
    /// The one that these arguments mean.
    pub fn new(host: HostTid, who: Who, standin: StandinId, args: &[u64; 6], receives: bool) -> Result<Series, i32> {
        let mut deadline = None;
        if receives && args[4] != 0 {
            let mut timeout = [0; 16];
            guest_memory::read(host.0, args[4], &mut timeout).map_err(|_| libc::EFAULT)?;
            let (s, ns) = (word(&timeout, 0), word(&timeout, 8));
            if ns >= 1_000_000_000 || s > i64::MAX as u64 {
                return Err(libc::EINVAL);
            }
            deadline = Instant::now().checked_add(Duration::new(s, ns as u32));
        }
        let count = (args[2] & 0xffff_ffff).min(IOV_MAX);
        Ok(Series { who, standin, flags: args[3], at: args[1], count, done: 0, deadline, step: None })
    }

    /// The call for the next message.
    pub fn next(&mut self, standins: &Device, host: HostTid, receives: bool) -> Result<Call, Refusal> {
        let at = self.at.wrapping_add(self.done * ELEMENT_BYTES);
        let header = Header::read(host, at).map_err(|errno| (errno, ""))?;
        if receives {
            let flags = self.flags & !(libc::MSG_WAITFORONE as u64);
            let go_on = self.done > 0 && self.flags & libc::MSG_WAITFORONE as u64 != 0;
            let flags = if go_on { flags | libc::MSG_DONTWAIT as u64 } else { flags };
            let incoming = Incoming::of(header, self.who, flags);
            let call = incoming.call(self.standin, flags);
            self.step = Some(SeriesStep::In(incoming));
            return Ok(call);
        }
        let envelope = Envelope { name: header.name, control: header.control };
        let from = MessageSender { host, who: self.who, standin: self.standin, flags: self.flags };
        let (call, outgoing) = Outgoing::first(standins, &from, &envelope, &header.pieces)?;
        self.step = Some(SeriesStep::Out(outgoing));
        Ok(call)
    }

    /// An error counts only if nothing was done before it.
    pub fn all(&self, result: i64) -> i64 {
        if self.done > 0 { self.done as i64 } else { result }
    }
}
