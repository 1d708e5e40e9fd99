//! How processes are scheduled (sched(7), ioprio_set(2)). Home's kernel knows all processes, says
//! who may do what, and keeps how each is scheduled in its deputy; a body follows. In real time no
//! node schedules its guests: whoever may be scheduled so goes home for it. Which processors a
//! thread may use is the hosting kernel's affair, for they are its own.

use crate::calls::served::Asked;
use crate::sandbox::guest_memory;
use crate::state::calls::after::After;
use crate::state::calls::scheduled::{Follow, What};
use os::ptrace::HostTid;
use os::scheduling::is_real_time;
use room_protocol::message::Call;

/// Bytes of the first form of `struct sched_attr`, and the most that the kernel takes
/// (linux/sched/types.h).
const ATTRIBUTES_MIN: usize = 48;
const ATTRIBUTES_MAX: usize = 4096;
const IOPRIO_WHO_PROCESS: i32 = 1;

/// Serves a call about scheduling.
pub fn serve(asked: Asked) {
    let host = host(&asked, asked.args[0] as i32);
    match i64::from(asked.nr) {
        libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity | libc::SYS_sched_rr_get_interval => match host {
            Some(_) => asked.here(),
            None => asked.forward(),
        },
        libc::SYS_sched_setscheduler => {
            let policy = asked.args[1] as u32;
            set(asked, host, What::Policy(policy));
        }
        libc::SYS_sched_setattr => set_attributes(asked, host),
        libc::SYS_ioprio_set => {
            let [which, whom, value, ..] = asked.args.map(|arg| arg as i32);
            let host = crate::calls::served::schedule::host(&asked, whom).filter(|_| which == IOPRIO_WHO_PROCESS);
            set(asked, host, What::IoPriority(value as u16));
        }
        _ => asked.forward(),
    }
}

/// The thread here that a call names, if it is one.
fn host(asked: &Asked, tid: i32) -> Option<HostTid> {
    match tid {
        0 => Some(asked.waiting.host_tid),
        tid => asked.room.guests().host(tid),
    }
}

fn set(asked: Asked, host: Option<HostTid>, what: What) {
    match asked.pack() {
        Ok((call, _)) => ask(asked, call, host.map(|host| Follow { host, what })),
        Err(errno) => asked.value(-i64::from(errno)),
    }
}

/// `then`: what a thread here does after it.
fn ask(asked: Asked, call: Call, then: Option<Follow>) {
    let Some(then) = then else { return asked.ask(call, After::Write(Vec::new()), false) };
    let policy = match then.what {
        What::Policy(policy) | What::Attributes { policy: Some(policy), .. } => policy,
        _ => 0,
    };
    if is_real_time(policy) && may_be_first(&asked) {
        let other = asked.room.guests().who(then.host).map(|who| who.pid).filter(|pid| *pid != asked.who.pid);
        return asked.go_home_after(libc::EPERM, other);
    }
    asked.ask(call, After::Scheduled(then), false);
}

/// Home's kernel may let the caller be scheduled in real time: it has CAP_SYS_NICE, or a limit that
/// allows it.
fn may_be_first(asked: &Asked) -> bool {
    let limits = os::process::limits(asked.waiting.host_tid.0);
    let has_limit = limits.is_ok_and(|all| all.get(libc::RLIMIT_RTPRIO as usize).is_some_and(|(soft, _)| *soft > 0));
    has_limit || asked.room.guests().get(asked.who.pid).is_some_and(|guest| guest.is_first_of_all)
}

/// sched_setattr: a structure that says its own length.
fn set_attributes(asked: Asked, host: Option<HostTid>) {
    let [pid, at, flags, ..] = asked.args;
    let read = |into: &mut [u8]| guest_memory::read(asked.waiting.host_tid.0, at, into).is_ok();
    let mut size = [0; 4];
    let is_read = read(&mut size);
    let mut data = vec![0; (u32::from_le_bytes(size) as usize).clamp(ATTRIBUTES_MIN, ATTRIBUTES_MAX)];
    // The kernel finds by itself that there is no structure.
    if at != 0 && !(is_read && read(&mut data)) {
        return asked.value(-i64::from(libc::EFAULT));
    }
    let what = wanted(&data);
    let call = Call {
        pointers: if at == 0 { 0 } else { 0b10 },
        ..Call::new(libc::SYS_sched_setattr, [pid, 0, flags, 0, 0, 0])
    };
    let call = if at == 0 { call } else { Call { data, ..call } };
    ask(asked, call, host.map(|host| Follow { host, what }));
}

/// What the attributes say of a policy and a nice value.
fn wanted(attributes: &[u8]) -> What {
    const RESET_ON_FORK: u64 = 0x01;
    const KEEP_POLICY: u64 = 0x08;
    const KEEP_PARAMETERS: u64 = 0x10;
    let word = |at: usize| attributes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
    let flags = u64::from(word(8)) | u64::from(word(12)) << 32;
    let has = |flag: u64| flags & flag != 0;
    let policy = word(4) | if has(RESET_ON_FORK) { libc::SCHED_RESET_ON_FORK as u32 } else { 0 };
    let is_niced = has(KEEP_POLICY) || [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(word(4) as i32));
    What::Attributes {
        policy: (!has(KEEP_POLICY)).then_some(policy),
        nice: (is_niced && !has(KEEP_PARAMETERS)).then_some(word(16) as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(policy: u32, flags: u64, nice: i32) -> Vec<u8> {
        let mut bytes = vec![0; ATTRIBUTES_MIN];
        bytes[4..8].copy_from_slice(&policy.to_le_bytes());
        bytes[8..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..20].copy_from_slice(&nice.to_le_bytes());
        bytes
    }

    #[test]
    fn attributes_say_what_changes() {
        let reset = libc::SCHED_RESET_ON_FORK as u32;
        let table = [
            (attributes(3, 0, 5), Some(3), Some(5)),
            (attributes(0, 1, -5), Some(reset), Some(-5)),
            (attributes(5, 0, 7), Some(5), None),
            (attributes(0, 8, 7), None, Some(7)),
            (attributes(3, 0x10, 7), Some(3), None),
            (Vec::new(), Some(0), Some(0)),
        ];
        for (bytes, policy, nice) in table {
            assert_eq!(wanted(&bytes), What::Attributes { policy, nice });
        }
    }
}
