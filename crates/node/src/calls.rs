//! `tern trace`: which calls a process makes away from home.

use std::sync::Arc;

use control_protocol::calls::CallsReport;
use control_protocol::steward::{FromSteward, ToSteward};

use crate::daemon::Daemon;
use crate::rooms;

/// Asks all rooms for the process; `None` if it is in none of them.
pub(crate) fn calls(daemon: &Arc<Daemon>, pid: i32, family: bool) -> Option<CallsReport> {
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
