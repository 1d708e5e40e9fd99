//! A thread whose rights a call has changed at home takes the same here, before the call returns.
//!
//! What the two kernels make of the same call differs: a body has few of home's capabilities, and
//! none of its securebits. So its kernel is not asked to do the same, but to come to the same ids,
//! groups and capabilities (as far as guests may have these), which home reads from its kernel. A
//! body has SECBIT_NO_SETUID_FIXUP, so that each of these is set for itself.

use crate::sandbox::ids;
use crate::sandbox::porter::body::kept_capabilities;
use crate::state::due_before_return::Due;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::injected::with_inside;
use os::inject::Inside;
use os::namespace::CapabilitySets;
use os::process::Status;
use os::ptrace::{HostTid, Stopped, TraceError};
use room_protocol::message::{Capabilities, Credentials};
use std::time::Duration;

/// Bytes below a thread's stack that are written to without asking.
const BELOW_STACK_BYTES: usize = 512;

/// Those of home's capabilities that a guest has.
pub fn kept(home: Capabilities) -> Capabilities {
    within(home, kept_capabilities())
}

/// Those that are among these, in sets that the kernel takes.
fn within(of: Capabilities, these: u64) -> Capabilities {
    let permitted = of.permitted & these;
    let inheritable = of.inheritable & these;
    let ambient = of.ambient & permitted & inheritable;
    Capabilities { permitted, effective: of.effective & permitted, inheritable, ambient, bounding: of.bounding & these }
}

/// What capset(2) sets of them.
pub fn sets(of: Capabilities) -> CapabilitySets {
    CapabilitySets { permitted: of.permitted, effective: of.effective, inheritable: of.inheritable }
}

/// Arguments of the calls of prctl(2) that make these ambient.
pub fn raising(ambient: u64) -> impl Iterator<Item = [u64; 6]> {
    let bits = (0..64u64).filter(move |bit| ambient & (1 << bit) != 0);
    bits.map(|bit| [libc::PR_CAP_AMBIENT as u64, libc::PR_CAP_AMBIENT_RAISE as u64, bit, 0, 0, 0])
}

impl Tracer {
    /// Has a stopped thread do what is due to it; it is then as it was, and about to get `signal`,
    /// if any.
    pub fn pay(&self, stopped: Stopped, signal: i32) -> Result<Stopped, TraceError> {
        let host = stopped.tid();
        let owed = self.room.owed.take(host);
        if owed.is_empty() {
            return Ok(stopped);
        }
        let registers = stopped.registers()?;
        let carried = if signal > 0 { Some(stopped.signal_info()?) } else { None };
        self.room.filtering.begin(host);
        let done = with_inside(stopped, Duration::ZERO, |inside, at| {
            owed.into_iter().try_for_each(|due| match due {
                Due::Descriptor(descriptor) => self.take_descriptor(inside, at, descriptor),
                Due::Rights(credentials) => take_rights(inside, at, &credentials),
                Due::KeepsCapabilities(keeps) => {
                    let args = [libc::PR_SET_KEEPCAPS as u64, u64::from(keeps), 0, 0, 0, 0];
                    inside.must("keeping capabilities", libc::SYS_prctl, args).map(drop)
                }
            })
        });
        self.room.filtering.end(host);
        let (mut stopped, done) = done?;
        stopped.set_registers(&registers)?;
        if let Some(info) = carried {
            stopped.set_signal_info(&info)?;
        }
        done.map(|()| stopped)
    }
}

/// The thread takes these rights of home's. `at`: memory that is free, below its stack.
fn take_rights(inside: &mut Inside, at: u64, home: &Credentials) -> Result<(), TraceError> {
    let HostTid(host) = inside.tid();
    let now = os::process::status(host)?;
    let own = Capabilities {
        permitted: now.permitted,
        effective: now.capabilities,
        inheritable: now.inheritable,
        ambient: now.ambient,
        bounding: now.bounding,
    };
    // To go from any ids to any others takes what it had before, which may not count any more.
    let all = CapabilitySets { effective: own.permitted, ..sets(own) };
    set_capabilities(inside, at, all)?;
    take_ids(inside, at, home, &now)?;
    let wanted = within(home.capabilities, own.permitted);
    set_capabilities(inside, at, sets(wanted))?;
    if wanted.ambient != own.ambient {
        let forget = [libc::PR_CAP_AMBIENT as u64, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0, 0, 0, 0];
        inside.must("giving up ambient capabilities", libc::SYS_prctl, forget)?;
        for args in raising(wanted.ambient) {
            inside.must("taking an ambient capability", libc::SYS_prctl, args)?;
        }
    }
    Ok(())
}

fn take_ids(inside: &mut Inside, at: u64, home: &Credentials, now: &Status) -> Result<(), TraceError> {
    // A group that has no id here is no loss: files are served with the rights that the deputy has.
    let groups: Vec<u32> = home.groups.iter().copied().filter(|group| ids::has(*group)).collect();
    if groups != now.groups.iter().map(|group| ids::inside(*group)).collect::<Vec<_>>() {
        take_groups(inside, at, &groups)?;
    }
    let words = |ids: [u32; 4]| [ids[0].into(), ids[1].into(), ids[2].into(), 0, 0, 0];
    if home.gid != now.gid.map(ids::inside) {
        inside.must("taking group ids", libc::SYS_setresgid, words(home.gid))?;
        inside.call(libc::SYS_setfsgid, [home.gid[3].into(), 0, 0, 0, 0, 0])?;
    }
    if home.uid != now.uid.map(ids::inside) {
        inside.must("taking user ids", libc::SYS_setresuid, words(home.uid))?;
        inside.call(libc::SYS_setfsuid, [home.uid[3].into(), 0, 0, 0, 0, 0])?;
    }
    Ok(())
}

fn take_groups(inside: &mut Inside, at: u64, groups: &[u32]) -> Result<(), TraceError> {
    let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_le_bytes()).collect();
    let length = bytes.len() as u64;
    let is_long = bytes.len() > BELOW_STACK_BYTES;
    let place = if is_long {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        inside.must(
            "making room for its groups",
            libc::SYS_mmap,
            [0, length, protection as u64, flags as u64, u64::MAX, 0],
        )?
    } else {
        at
    };
    inside.memory().write(place, &bytes)?;
    inside.must("taking groups", libc::SYS_setgroups, [groups.len() as u64, place, 0, 0, 0, 0])?;
    if is_long {
        inside.must("giving back the room for its groups", libc::SYS_munmap, [place, length, 0, 0, 0, 0])?;
    }
    Ok(())
}

fn set_capabilities(inside: &mut Inside, at: u64, sets: CapabilitySets) -> Result<(), TraceError> {
    let (head, data) = os::namespace::capabilities(sets);
    let bytes: Vec<u8> = head.iter().chain(&data).flat_map(|word| word.to_le_bytes()).collect();
    inside.memory().write(at, &bytes)?;
    let data_at = at + size_of_val(&head) as u64;
    inside.must("taking capabilities", libc::SYS_capset, [at, data_at, 0, 0, 0, 0]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_some_of_homes_capabilities() {
        let all =
            Capabilities { permitted: u64::MAX, effective: 0b11, inheritable: 0b110, ambient: 0b100, bounding: 0b11 };
        let has = Capabilities { permitted: 0b101, effective: 0b1, inheritable: 0b100, ambient: 0b100, bounding: 0b1 };
        assert_eq!(within(all, 0b101), has);
        assert_eq!(raising(0b101).map(|args| args[2]).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(kept(all).permitted, crate::sandbox::porter::body::KEPT_CAPABILITIES);
    }
}
