//! System V semaphores and message queues are home's, wherever their users run: the deputy makes
//! the calls. So a process finds the objects again wherever it goes, others at home share them, and
//! what a process has done to a semaphore with SEM_UNDO is undone when its deputy ends.
//!
//! Shared memory that is made away is the room's own. That of home's processes is found by its key
//! or its number; what is asked of it or done to it otherwise is done at home, and who attaches it
//! goes there.

use crate::calls::served::Asked;
use crate::sandbox::guest_memory;
use crate::state::calls::after::{After, IpcStep};
use crate::state::calls::marshal::{Back, DATA_BYTES_MAX};
use crate::state::guests::Who;
use crate::state::restarting_calls::never_restarts;
use os::ptrace::HostTid;
use room_protocol::message::Call;

/// Commands of semctl(2) and msgctl(2) (linux/ipc.h, linux/sem.h, linux/msg.h).
const IPC_INFO: i32 = 3;
const GETALL: i32 = 13;
const SETVAL: i32 = 16;
const SETALL: i32 = 17;
const SEM_STAT: i32 = 18;
const SEM_INFO: i32 = 19;
const SEM_STAT_ANY: i32 = 20;
const MSG_STAT: i32 = 11;
const MSG_INFO: i32 = 12;
const MSG_STAT_ANY: i32 = 13;

/// `struct semid64_ds`, and where it says how many semaphores there are.
const SEM_DS_BYTES: usize = 104;
const SEM_COUNT_AT: usize = 80;
/// The size of `struct seminfo`.
const SEM_INFO_BYTES: usize = 40;
/// The size of `struct shmid64_ds`.
const SHM_DS_BYTES: usize = 112;
/// Commands of shmctl(2) that libc has no names for (linux/shm.h).
const SHM_LOCK: i32 = 11;
const SHM_UNLOCK: i32 = 12;
/// The size of `struct msqid64_ds`.
const MSG_DS_BYTES: usize = 120;
/// The size of `struct msginfo`.
const MSG_INFO_BYTES: usize = 32;
/// The type of a message, before its text.
const TYPE_BYTES: usize = 8;

pub fn serve(asked: Asked) {
    match i64::from(asked.nr) {
        libc::SYS_shmget => find_memory(asked),
        libc::SYS_shmat => attach_memory(asked),
        libc::SYS_shmctl => control_memory(asked),
        libc::SYS_semctl => control_semaphores(asked),
        libc::SYS_msgctl => control_queue(asked),
        libc::SYS_msgsnd => send(asked),
        libc::SYS_msgrcv => receive(asked),
        _ => forward(asked),
    }
}

/// New memory is the room's.
fn find_memory(asked: Asked) {
    let [key, bytes, flags, ..] = asked.args;
    if key as i32 == libc::IPC_PRIVATE {
        return asked.here();
    }
    let new = (libc::IPC_CREAT | libc::IPC_EXCL) as u64;
    let call = Call::new(i64::from(asked.nr), [key, bytes, flags & !new, 0, 0, 0]);
    let (pid, makes) = (asked.who.pid, flags & new == new);
    asked.ask(call, After::HereIfAbsent { pid, makes }, false);
}

fn attach_memory(asked: Asked) {
    let (memory, pid, nr) = (asked.args[0] as i32, asked.who.pid, asked.nr);
    if is_here(&asked, memory) {
        return asked.here();
    }
    let call = memory_state(memory);
    asked.ask(call, After::HomeIfThere { pid, nr }, false);
}

/// The call shmctl(IPC_STAT).
fn memory_state(memory: i32) -> Call {
    const AT: usize = 2;
    let call = Call::new(libc::SYS_shmctl, [memory as u64, libc::IPC_STAT as u64, 0, 0, 0, 0]);
    Call { pointers: 1 << AT, data: vec![0; SHM_DS_BYTES], out_bytes: SHM_DS_BYTES as u32, ..call }
}

fn control_memory(asked: Asked) {
    const AT: usize = 2;
    let [memory, command, ..] = asked.args.map(|arg| arg as i32);
    let of_home = matches!(command, libc::IPC_STAT | libc::IPC_SET | libc::IPC_RMID | SHM_LOCK | SHM_UNLOCK);
    // What there is at all, is asked of the room.
    if !of_home || is_here(&asked, memory) {
        return asked.here();
    }
    match command {
        libc::IPC_STAT => structure(asked, AT, SHM_DS_BYTES, false),
        libc::IPC_SET => structure(asked, AT, SHM_DS_BYTES, true),
        _ => {
            let call = with_pointer(&asked, AT);
            asked.ask(call, After::Write(Vec::new()), false);
        }
    }
}

/// Whether this memory is the room's, as far as the caller can mean it: home's that it has got by a
/// key may have the same number.
fn is_here(asked: &Asked, memory: i32) -> bool {
    let is_of_home = |guest: &crate::state::guests::Guest| guest.memory_of_home.contains(&memory);
    let is_of_home = asked.room.guests().get(asked.who.pid).is_some_and(is_of_home);
    !is_of_home && os::objects::has_shared_memory(asked.waiting.host_tid.0, memory).unwrap_or(true)
}

/// As the row describes it. No operation of a semaphore is made twice, or lost.
fn forward(asked: Asked) {
    match asked.pack() {
        Ok((call, back)) => {
            let exact = never_restarts(i64::from(asked.nr));
            asked.ask(call, After::Write(back), exact);
        }
        Err(errno) => asked.value(-i64::from(errno)),
    }
}

fn send(asked: Asked) {
    let [_, from, bytes, ..] = asked.args;
    let Some(all) = message_bytes(bytes) else { return asked.value(-i64::from(libc::EINVAL)) };
    let mut data = vec![0; all];
    if guest_memory::read(asked.waiting.host_tid.0, from, &mut data).is_err() {
        return asked.value(-i64::from(libc::EFAULT));
    }
    let call = Call { pointers: 0b10, data, ..with_pointer(&asked, 1) };
    asked.ask(call, After::Write(Vec::new()), true);
}

fn receive(asked: Asked) {
    let [_, to, bytes, ..] = asked.args;
    let Some(all) = message_bytes(bytes) else { return asked.value(-i64::from(libc::EINVAL)) };
    let call = with_pointer(&asked, 1);
    let call = Call {
        pointers: 0b10,
        out_bytes: all as u32,
        out_per_result: 1,
        out_fixed: TYPE_BYTES as u32,
        data: vec![0; all],
        ..call
    };
    asked.ask(call, After::Ipc(IpcStep::Received { to }), true);
}

/// Of a message with so many bytes of text. More than fit here no queue takes, unless the superuser
/// has raised kernel.msgmax.
fn message_bytes(text: u64) -> Option<usize> {
    usize::try_from(text).ok()?.checked_add(TYPE_BYTES).filter(|all| *all <= DATA_BYTES_MAX)
}

/// The call, with the memory that goes along for this argument.
fn with_pointer(asked: &Asked, argument: usize) -> Call {
    let mut args = asked.args;
    args[argument] = 0;
    Call::new(i64::from(asked.nr), args)
}

fn control_semaphores(asked: Asked) {
    const AT: usize = 3;
    match asked.args[2] as i32 {
        libc::IPC_STAT | SEM_STAT | SEM_STAT_ANY => structure(asked, AT, SEM_DS_BYTES, false),
        libc::IPC_SET => structure(asked, AT, SEM_DS_BYTES, true),
        IPC_INFO | SEM_INFO => structure(asked, AT, SEM_INFO_BYTES, false),
        GETALL | SETALL => {
            let [set, ..] = asked.args;
            let args = [asked.args[0], asked.args[1], asked.args[2], asked.args[3]];
            let call = Call::new(i64::from(asked.nr), [set, 0, libc::IPC_STAT as u64, 0, 0, 0]);
            let call = Call { pointers: 1 << AT, data: vec![0; SEM_DS_BYTES], out_bytes: SEM_DS_BYTES as u32, ..call };
            let who = asked.who;
            asked.ask(call, After::Ipc(IpcStep::Counted { who, args }), false);
        }
        // The others read no memory.
        command => {
            let value = if command == SETVAL { asked.args[3] } else { 0 };
            let [set, which, command, ..] = asked.args;
            let call = Call::new(i64::from(asked.nr), [set, which, command, value, 0, 0]);
            asked.ask(call, After::Write(Vec::new()), false);
        }
    }
}

fn control_queue(asked: Asked) {
    const AT: usize = 2;
    match asked.args[1] as i32 {
        libc::IPC_STAT | MSG_STAT | MSG_STAT_ANY => structure(asked, AT, MSG_DS_BYTES, false),
        libc::IPC_SET => structure(asked, AT, MSG_DS_BYTES, true),
        IPC_INFO | MSG_INFO => structure(asked, AT, MSG_INFO_BYTES, false),
        _ => {
            let call = with_pointer(&asked, AT);
            asked.ask(call, After::Write(Vec::new()), false);
        }
    }
}

/// A command that reads, or else writes, so many bytes where this argument points.
fn structure(asked: Asked, argument: usize, bytes: usize, reads: bool) {
    let to = asked.args[argument];
    let mut data = vec![0; bytes];
    if reads && guest_memory::read(asked.waiting.host_tid.0, to, &mut data).is_err() {
        return asked.value(-i64::from(libc::EFAULT));
    }
    let call = Call { pointers: 1 << argument, data, ..with_pointer(&asked, argument) };
    let back = Back { from: 0, bytes, to, counted_at: None };
    match reads {
        true => asked.ask(call, After::Write(Vec::new()), false),
        false => asked.ask(Call { out_bytes: bytes as u32, ..call }, After::Write(vec![back]), false),
    }
}

/// A guest's call that home has answered.
pub enum IpcReply {
    /// The guest gets this result.
    Result(i64),
    /// Home makes this call next for the thread.
    Next {
        /// The thread that calls.
        who: Who,
        /// The call that home makes.
        call: Box<Call>,
        /// Where its result goes.
        back: Vec<Back>,
    },
}

/// Says what home's answer comes to for the call of thread `host`.
pub fn reply(host: HostTid, then: IpcStep, result: i64, out: &[u8]) -> IpcReply {
    match then {
        _ if result < 0 => IpcReply::Result(result),
        IpcStep::Received { to } => {
            let text = usize::try_from(result).unwrap_or(usize::MAX);
            let message = out.get(..text.saturating_add(TYPE_BYTES));
            let written = message.is_some_and(|message| guest_memory::write(host.0, to, message).is_ok());
            IpcReply::Result(if written { result } else { -i64::from(libc::EFAULT) })
        }
        IpcStep::Counted { who, args } => match all_values(host, args, out) {
            Err(errno) => IpcReply::Result(-i64::from(errno)),
            Ok((call, back)) => IpcReply::Next { who, call: Box::new(call), back },
        },
    }
}

/// The call that reads or sets all values of the set that `out` describes.
fn all_values(host: HostTid, args: [u64; 4], out: &[u8]) -> Result<(Call, Vec<Back>), i32> {
    let count = out.get(SEM_COUNT_AT..SEM_COUNT_AT + 8).and_then(|bytes| bytes.try_into().ok());
    let bytes = count.and_then(|count| usize::try_from(u64::from_le_bytes(count)).ok()?.checked_mul(size_of::<u16>()));
    let bytes = bytes.filter(|bytes| *bytes <= DATA_BYTES_MAX).ok_or(libc::EINVAL)?;
    let [set, which, command, at] = args;
    let mut data = vec![0; bytes];
    let sets = command as i32 == SETALL;
    if sets {
        guest_memory::read(host.0, at, &mut data).map_err(|_| libc::EFAULT)?;
    }
    let call = Call { pointers: 0b1000, data, ..Call::new(libc::SYS_semctl, [set, which, command, 0, 0, 0]) };
    match sets {
        true => Ok((call, Vec::new())),
        false => {
            let back = Back { from: 0, bytes, to: at, counted_at: None };
            Ok((Call { out_bytes: bytes as u32, ..call }, vec![back]))
        }
    }
}
