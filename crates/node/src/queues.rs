//! `tern netmon`: where messages of this home's processes wait that are away.

use std::sync::Arc;

use control_protocol::queues::RoomQueues;
use control_protocol::steward::{FromSteward, ToSteward};
use packet::Peer;

use crate::daemon::Daemon;
use crate::rooms;

/// Asks all rooms whose user is the one who asks; root gets all.
pub(crate) fn queues(daemon: &Arc<Daemon>, peer: Peer) -> Vec<RoomQueues> {
    let mut all = Vec::new();
    for (id, steward) in rooms::stewards(&daemon.options.run_dir) {
        match steward.ask(&ToSteward::Queues, &[]) {
            Ok(FromSteward::Queues(queues)) if peer.uid == 0 || queues.owner == peer.uid => all.push(*queues),
            Ok(FromSteward::Queues(_)) => {}
            Ok(_) => tracing::warn!("room {id}: unexpected answer"),
            Err(e) => tracing::debug!("room {id} does not tell its queues: {e}"),
        }
    }
    all
}
