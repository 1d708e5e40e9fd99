//! This room's ids on this machine. A warden serves one room, so that they are the process' own.

use os::id_ranges::IdRange;
use std::sync::OnceLock;

static OWN: OnceLock<IdRange> = OnceLock::new();

/// Sets them, before guests come.
pub(crate) fn set(ids: IdRange) {
    // Set once, by the warden's first thread.
    let _ = OWN.set(ids);
}

/// Whether the room's ids are this machine's own: its root is the machine's.
pub(crate) fn are_the_machines() -> bool {
    OWN.get().is_some_and(IdRange::is_machines)
}

/// Returns the id here of the room's root. Until ids are set it is root's own, which the room does
/// not know: nothing is served by it.
pub(crate) fn root() -> u32 {
    OWN.get().map_or(0, IdRange::first)
}

/// Whether one of the home's ids is the room's too.
pub(crate) fn has(id: u32) -> bool {
    OWN.get().is_some_and(|ids| ids.has(id))
}

/// Returns the room's number of an id here; 0 for one that the room has not.
pub(crate) fn inside(id: u32) -> u32 {
    OWN.get().and_then(|ids| ids.inside(id)).unwrap_or(0)
}
