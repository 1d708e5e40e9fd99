//! Calls by which a process holds another, or looks into its memory: both must be in one place.
//! What can be looked into here, between two of this room, is the hosting kernel's; for all else
//! both go home, the other one first.

use crate::calls::served::Asked;
use crate::state::guests::ToBeTraced;
use crate::supervisor::memory_group as relatives;
use os::process::Status;

const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

pub fn serve(asked: Asked) {
    use os::ptrace::Asked::{Memory, OfHeld, ToBeHeld, ToHold};
    let other = match os::ptrace::Asked::of(asked.nr, &asked.args) {
        ToBeHeld if !asked.room.is_node_local() && is_promised(&asked) => return asked.value(0),
        Memory(other) if looks_here(&asked, other) => return asked.here(),
        ToHold(other) | Memory(other) => Some(other),
        // Whom it holds is held at home already.
        ToBeHeld | OfHeld => None,
    };
    let others = other.filter(|other| *other > 0 && *other != asked.who.pid);
    asked.go_home_after(libc::EPERM, others);
}

/// A child of vfork(2) is held as soon as it executes a program.
fn is_promised(asked: &Asked) -> bool {
    let is_begotten = relatives::begetter(&asked.room, asked.who.pid).is_some();
    if let Some(guest) = asked.room.guests().get_mut(asked.who.pid).filter(|_| is_begotten) {
        guest.traced = ToBeTraced::Promised;
    }
    is_begotten
}

/// Whether the kernel here lets the caller look into this process of the room, as home's would.
fn looks_here(asked: &Asked, other: i32) -> bool {
    let (host, their_host) = {
        let guests = asked.room.guests();
        (guests.host(asked.who.pid), guests.host(other))
    };
    let (Some(host), Some(their_host)) = (host, their_host) else { return false };
    if host == their_host {
        return true;
    }
    let (Ok(own), Ok(theirs)) = (os::process::status(host.0), os::process::status(their_host.0)) else { return false };
    // One that is being taken away is no guest any more, and looks for a moment as if it ran.
    let is_here = !is_held(&theirs) && asked.room.guests().host(other) == Some(their_host);
    is_here && !heeds_descent() && are_alike(&own, &theirs) && is_open(their_host.0, &theirs)
}

/// What is left of a process that has gone stands still until it is taken away, and who is about to
/// go stands still, too: what is written there now is lost.
fn is_held(status: &Status) -> bool {
    matches!(status.state, 't' | 'Z' | 'X')
}

/// Nobody is anybody's child here.
fn heeds_descent() -> bool {
    std::fs::read(YAMA).is_ok_and(|scope| !scope.starts_with(b"0"))
}

/// `__ptrace_may_access` asks for no capability.
fn are_alike(own: &Status, theirs: &Status) -> bool {
    theirs.uid.iter().all(|uid| *uid == own.uid[0])
        && theirs.gid.iter().all(|gid| *gid == own.gid[0])
        && theirs.permitted & !own.permitted == 0
}

/// Those who may not be dumped are root's.
fn is_open(pid: i32, status: &Status) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == status.uid[1])
}
