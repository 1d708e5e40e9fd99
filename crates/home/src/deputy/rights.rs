//! Rights of deputies: those of each thread, and what becomes of them when a body executes a
//! program, which its deputy does not do.

use crate::deputy::channel;
use crate::deputy::job::{Job, Purpose};
use crate::deputy::record::Deputy;
use os::process;
use room_protocol::message::{Call, Capabilities, Credentials};

/// Reads the ids and capabilities of thread `tid`.
pub fn credentials(tid: i32) -> os::Result<Credentials> {
    Ok(rights(&process::status(tid)?))
}

/// Ids and capabilities in what the kernel says of a thread.
pub fn rights(status: &process::Status) -> Credentials {
    let capabilities = Capabilities {
        permitted: status.permitted,
        effective: status.capabilities,
        inheritable: status.inheritable,
        ambient: status.ambient,
        bounding: status.bounding,
    };
    Credentials { uid: status.uid, gid: status.gid, groups: status.groups.clone(), capabilities }
}

/// A call that may change what its thread may do.
pub fn changes_rights(nr: u32) -> bool {
    matches!(
        i64::from(nr),
        libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
            | libc::SYS_capset
            // Ambient capabilities.
            | libc::SYS_prctl
    )
}

/// SECBIT_NOROOT (linux/securebits.h): user 0 has no capabilities of its own.
const NO_ROOT: u32 = 1 << 0;

/// What a thread with these rights may do when it has executed a program that gives none
/// (capabilities(7), "Transformation of capabilities during execve()"). A deputy takes no rights
/// that it has given up: those who would get some execute their programs at home.
pub fn after_exec(now: &Credentials, securebits: u32) -> Credentials {
    let [real, effective, ..] = now.uid;
    let had = now.capabilities;
    let is_root = securebits & NO_ROOT == 0 && (real == 0 || effective == 0);
    let permitted = if is_root { (had.bounding | had.inheritable) & had.permitted } else { had.ambient };
    let counts = if is_root && effective == 0 { permitted } else { had.ambient & permitted };
    let ambient = had.ambient & permitted;
    let last = |[real, effective, ..]: [u32; 4]| [real, effective, effective, effective];
    Credentials {
        uid: last(now.uid),
        gid: last(now.gid),
        groups: now.groups.clone(),
        capabilities: Capabilities { permitted, effective: counts, ambient, ..had },
    }
}

/// The calls by which a deputy comes from these rights to those that it has when its body has
/// executed a program.
pub fn calls_after_exec(now: &Credentials, after: &Credentials) -> Vec<Call> {
    // The same effective id once more, so that the kernel takes it for files as well.
    let saved =
        |nr, [_, effective, ..]: [u32; 4]| Call::new(nr, [u64::MAX, effective.into(), effective.into(), 0, 0, 0]);
    let mut calls = Vec::new();
    if now.gid != after.gid {
        calls.push(saved(libc::SYS_setresgid, after.gid));
    }
    if now.uid != after.uid {
        calls.push(saved(libc::SYS_setresuid, after.uid));
    }
    if now.capabilities != after.capabilities || now.uid != after.uid {
        calls.push(set_capabilities(after.capabilities));
    }
    calls.push(Call::new(libc::SYS_prctl, [libc::PR_SET_KEEPCAPS as u64, 0, 0, 0, 0, 0]));
    calls
}

fn set_capabilities(Capabilities { permitted, effective, inheritable, .. }: Capabilities) -> Call {
    let sets = os::namespace::CapabilitySets { permitted, effective, inheritable };
    let (head, data) = os::namespace::capabilities(sets);
    let bytes = head.iter().chain(&data).flat_map(|word| word.to_le_bytes()).collect();
    let args = [0, size_of_val(&head) as u64, 0, 0, 0, 0];
    Call { pointers: 0b11, data: bytes, ..Call::new(libc::SYS_capset, args) }
}

/// What this call sets its thread's securebits to, if it does.
pub fn securebits(call: &Call) -> Option<u32> {
    let [option, bits, ..] = call.args;
    let sets = i64::from(call.nr) == libc::SYS_prctl && option as i32 == libc::PR_SET_SECUREBITS;
    sets.then_some(bits as u32)
}

/// Gives a deputy, whose first thread has the rights `now`, those of the program that its body
/// executes.
pub fn execute(deputy: &mut Deputy, now: &Credentials) {
    let pid = deputy.proof.pid();
    let next = after_exec(now, deputy.securebits);
    if let Some(thread) = deputy.own_thread(pid) {
        for packet in calls_after_exec(now, &next).iter().filter_map(channel::call) {
            thread.give(Job::new(packet, Purpose::Nothing));
        }
    }
    deputy.set_rights(pid, &next);
    deputy.has_executed = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: [u32; 4], capabilities: Capabilities) -> Credentials {
        Credentials { uid, gid: [5, 6, 7, 7], groups: vec![8], capabilities }
    }

    #[test]
    fn programs_have_what_the_kernel_gives_them() {
        let all = Capabilities { permitted: 0b111, effective: 0b1, inheritable: 0b10, ambient: 0b10, bounding: 0b101 };
        let root = after_exec(&user([0, 0, 1, 1], all), 0);
        assert_eq!((root.uid, root.gid), ([0; 4], [5, 6, 6, 6]));
        assert_eq!(root.capabilities, Capabilities { effective: 0b111, ..all });
        let real = after_exec(&user([0, 1, 0, 1], all), 0);
        assert_eq!(real.capabilities, Capabilities { effective: 0b10, ..all });
        let none = Capabilities { permitted: 0b10, effective: 0b10, ..all };
        assert_eq!(after_exec(&user([1; 4], all), 0).capabilities, none);
        assert_eq!(after_exec(&user([0; 4], all), NO_ROOT).capabilities, none);
        let bounded = Capabilities { inheritable: 0, ambient: 0, bounding: 0b100, ..all };
        let bounded = after_exec(&user([0; 4], bounded), 0);
        assert_eq!((bounded.capabilities.permitted, bounded.capabilities.effective), (0b100, 0b100));
    }

    #[test]
    fn a_deputy_makes_no_needless_call() {
        let now = user([1; 4], Capabilities::default());
        let now = Credentials { gid: [6; 4], ..now };
        assert_eq!(calls_after_exec(&now, &after_exec(&now, 0)).len(), 1);
        let suspended = user([1000, 1000, 0, 1000], Capabilities::default());
        let calls: Vec<u32> = calls_after_exec(&suspended, &after_exec(&suspended, 0)).iter().map(|c| c.nr).collect();
        assert_eq!(calls, [119, 117, 126, 157]);
    }
}
