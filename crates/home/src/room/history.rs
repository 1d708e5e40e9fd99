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
