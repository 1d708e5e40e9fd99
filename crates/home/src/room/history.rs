//! Notes what happens to processes of this home, for `tern why`.

use control_protocol::history::{EVENT_BYTES, Event, Happening};
use std::path::Path;
use std::time::SystemTime;

/// Appends to the history of process `pid`, which runs. What cannot be noted is missed there, and
/// nothing else.
pub fn note(run_dir: &Path, pid: i32, what: Happening) {
    let at_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_millis() as u64);
    let noted = control_protocol::codec::encode(&Event { at_ms, what }, EVENT_BYTES)
        .map_err(|e| e.to_string())
        .and_then(|record| {
            os::journal::append(&control_protocol::paths::history_dir(run_dir), pid, &record).map_err(|e| e.to_string())
        });
    if let Err(e) = noted {
        tracing::debug!("the history of process {pid} has a gap: {e}");
    }
}

/// So many generations above a process are told that it was lost.
const GENERATIONS: usize = 6;

/// Notes that a process ends with its host: in its own history, and in those of the processes that
/// started it, which may want to begin it again.
pub fn note_lost(run_dir: &Path, pid: i32, node: &str) {
    let above = |pid: &i32| os::process::status(*pid).ok().map(|status| status.ppid).filter(|parent| *parent > 1);
    for pid in std::iter::successors(Some(pid), above).take(GENERATIONS) {
        note(run_dir, pid, Happening::Lost { node: node.to_owned() });
    }
}
