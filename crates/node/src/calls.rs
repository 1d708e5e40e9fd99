//! `tern trace`: which calls a process makes away from home.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::calls::CallsReport;
use control_protocol::steward::{FromSteward, ToSteward};

use crate::daemon::Daemon;
use crate::{moving, rooms};

/// How long a process is sought. A process that goes from one room to another is in none of them
/// for a moment.
const SOUGHT_FOR: Duration = Duration::from_millis(200);
/// The time between two looks.
const LOOKED_EVERY: Duration = Duration::from_millis(5);

/// Asks all rooms for the process; `None` if it is in none of them.
pub(crate) fn calls(daemon: &Arc<Daemon>, pid: i32, family: bool) -> Option<CallsReport> {
    let begun = Instant::now();
    loop {
        let report = ask_all(daemon, pid, family);
        if report.is_some() || !moving::may_be_away(pid) || begun.elapsed() >= SOUGHT_FOR {
            return report;
        }
        std::thread::sleep(LOOKED_EVERY);
    }
}

fn ask_all(daemon: &Arc<Daemon>, pid: i32, family: bool) -> Option<CallsReport> {
    for (id, steward) in rooms::stewards(&daemon.options.run_dir) {
        match steward.ask(&ToSteward::Calls { pid, family }, &[]) {
            Ok(FromSteward::Calls(Some(report))) => return Some(report),
            Ok(FromSteward::Calls(None)) => {}
            Ok(_) => tracing::warn!("room {id}: unexpected answer"),
            Err(e) => tracing::warn!("room {id} does not say which calls {pid} makes: {e}"),
        }
    }
    None
}
