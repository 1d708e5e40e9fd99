//! Gives a guest the messages that home has received for it, and the descriptors that came with
//! them.

use crate::calls::adoption::{adopt, adopted};
use crate::sandbox::guest_memory;
use crate::sandbox::spares::Spare;
use crate::state::calls::message::control::{FD_BYTES, descriptors};
use crate::state::calls::message::incoming::{Incoming, OpenFile};
use crate::state::calls::message::received::Received;
use crate::state::calls::message::series::{ELEMENT_BYTES, LENGTH, Series, SeriesStep};
use crate::state::calls::message::{CONTROL_BYTES, FLAGS, NAME_AT, NAME_BYTES, half};
use crate::state::due_before_return::{Descriptor, Due};
use crate::state::guests::{Waiting, Who};
use crate::state::shared::Shared;
use os::ptrace::HostTid;
use os::seccomp::Given;
use room_protocol::message::Call;
use std::os::fd::AsFd;
use std::time::Instant;

/// Home's answer to a call that a guest's thread waits for.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// TID of the thread on this node.
    pub host: HostTid,
    /// The call at its listener, unless the thread was interrupted.
    pub waiting: Option<&'a Waiting>,
    /// The result of the call.
    pub result: i64,
    /// The bytes that the call wrote.
    pub out: &'a [u8],
}

/// Puts all parts of a message where they belong; returns the result of the guest's call.
pub fn deliver(room: &Shared, message: &Incoming, arrived: &Arrived<'_>) -> i64 {
    let Arrived { host, result, out, .. } = *arrived;
    let write = |to: u64, bytes: &[u8]| guest_memory::write(host.0, to, bytes).is_ok();
    let mut whole = message.payload(out, result).all(|(to, bytes)| write(to, bytes));
    let name_bytes = half(out, NAME_BYTES);
    let name = out.get(NAME_AT..NAME_AT + (u64::from(name_bytes).min(message.name.bytes) as usize)).unwrap_or(&[]);
    if message.name.at != 0 {
        whole &= write(message.name.at, name);
    }
    if let Some(to) = message.name_bytes_to {
        whole &= write(to, &name_bytes.to_le_bytes());
    }
    if let Some(at) = message.header_at {
        let mut received = message.control_of(out);
        let lost = give_descriptors(room, message, arrived, &mut received);
        let flags = half(out, FLAGS) | if lost { libc::MSG_CTRUNC as u32 } else { 0 };
        let field = |offset: usize| at.wrapping_add(offset as u64);
        whole &= message.name.at == 0 || write(field(NAME_BYTES), &name_bytes.to_le_bytes());
        whole &= write(message.control.at, &received)
            && write(field(CONTROL_BYTES), &(received.len() as u64).to_le_bytes())
            && write(field(FLAGS), &flags.to_le_bytes());
    }
    if whole { result } else { -i64::from(libc::EFAULT) }
}

/// Gives the guest a message whose descriptors are known.
pub fn deliver_received(room: &Shared, received: Received, host: HostTid, waiting: Option<&Waiting>) -> i64 {
    let message = Incoming { files: received.files, ..(*received.incoming).clone() };
    deliver(room, &message, &Arrived { host, waiting, result: received.result, out: &received.out })
}

/// Gives a guest the descriptors that came with a message. An interrupted thread cannot be given
/// any: it takes them when it stands still (`tracer/fd_delivery.rs`). Returns whether some were
/// lost.
fn give_descriptors(room: &Shared, message: &Incoming, arrived: &Arrived<'_>, control: &mut Vec<u8>) -> bool {
    for range in descriptors(control) {
        for at in range.step_by(FD_BYTES) {
            let fd = half(control, at) as i32;
            let adopted = match message.files.get(&fd) {
                Some(file) => adopt_file(room, message.who, fd, *file),
                None => adopt(room, message.who, fd, false),
            };
            let Some(spare) = adopted else {
                control.clear();
                return true;
            };
            let close_on_exec = message.close_on_exec;
            let has_offset = message.files.contains_key(&fd);
            // The tracer shows what it gives: a file, whose seeks must stop, and what the receiver
            // would not see as it is at home.
            let is_shown = room.guests().get(message.who.pid).is_none_or(|guest| guest.shows_all);
            let given = arrived.waiting.filter(|_| !has_offset && is_shown).and_then(|waiting| {
                let given = Given { file: spare.file.as_fd(), close_on_exec, answers: false };
                os::seccomp::give(waiting.listener.as_fd(), waiting.id, given).ok().flatten()
            });
            let number = given.unwrap_or_else(|| {
                let number_at = message.control.at.wrapping_add(at as u64);
                let descriptor = Descriptor { file: spare.file, close_on_exec, number_at, has_offset };
                room.owed.add(arrived.host, Due::Descriptor(descriptor));
                -1
            });
            control[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
    }
    false
}

/// Makes a stand-in of a regular file that home has under this number for a guest.
fn adopt_file(room: &Shared, who: Who, fd: i32, OpenFile { offset, flags }: OpenFile) -> Option<Spare> {
    let spare = room.spares.take_for_file()?;
    let there = libc::O_APPEND | libc::O_NONBLOCK;
    let set = os::fds::set_flags(spare.file.as_fd(), there, flags & there);
    set.unwrap_or_else(|e| tracing::warn!("flags of a stand-in: {e}"));
    let at = rustix::fs::SeekFrom::Start(offset);
    rustix::fs::seek(&spare.file, at).map_or_else(|e| tracing::warn!("a stand-in's offset: {e}"), drop);
    room.standins.files.begins(spare.standin, offset);
    Some(adopted(room, who, fd, spare))
}

/// Goes on with a series when a message is done, or a part of one: returns the next call, or the
/// result of all. Only a guest that waits goes on.
pub fn step(room: &Shared, series: &mut Series, arrived: &Arrived<'_>) -> Result<Call, i64> {
    let Arrived { host, result, .. } = *arrived;
    let receives = matches!(series.step, Some(SeriesStep::In(_)));
    let result = match &mut series.step {
        Some(SeriesStep::In(message)) if result >= 0 => deliver(room, message, arrived),
        Some(SeriesStep::Out(outgoing)) => match outgoing.next(result) {
            Some(Ok(call)) => return Ok(call),
            Some(Err(errno)) => outgoing.total(-i64::from(errno)),
            None => outgoing.total(result),
        },
        _ => result,
    };
    let Ok(bytes) = u32::try_from(result) else { return Err(series.all(result)) };
    let length_at = series.at.wrapping_add(series.done * ELEMENT_BYTES + LENGTH);
    if guest_memory::write(host.0, length_at, &bytes.to_le_bytes()).is_err() {
        return Err(series.all(-i64::from(libc::EFAULT)));
    }
    series.done += 1;
    if series.done == series.count || series.deadline.is_some_and(|d| Instant::now() >= d) {
        return Err(series.done as i64);
    }
    series.next(&room.standins, host, receives).map_err(|(errno, _)| series.all(-i64::from(errno)))
}
