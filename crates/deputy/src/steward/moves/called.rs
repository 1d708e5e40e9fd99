//! A process that waits in the room for a call that only home can serve comes home by itself.

use super::MoveError;
use super::back::{self, Why};
use crate::steward::shared::Shared;
use ctl::moves::{Leg, Wish};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::ToRoom;

/// For so long a process that must come home is brought again when something stands in the way for a moment: its call fails else.
const COMES_WITHIN: Duration = Duration::from_secs(20);
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Brings a process home that waits for it in a call; the room is told if that cannot be done.
pub fn bring_home(room: &Arc<Shared>, pid: i32) {
    if let Some(under_way) = room.moves.lock().get_mut(&pid).filter(|u| !u.drains) {
        // On its way home it is stopped in its call, which is made again there; else it may be that it goes on waiting here.
        under_way.wanted_home = !under_way.returning;
        return;
    }
    if !room.table().deputies.contains_key(&pid) {
        return;
    }
    let stays = |why: String| room.tell(&ToRoom::Stays { pid, why });
    let (there, task) = (room.clone(), room.clone());
    let bring = move || {
        if !task.moves.wait_drained(pid) {
            return;
        }
        match come_for_call(&task, pid) {
            Ok(_) => tracing::info!("process {pid} came home for a call of its own"),
            Err(e) => there.tell(&ToRoom::Stays { pid, why: e.to_string() }),
        }
    };
    if let Err(e) = std::thread::Builder::new().name("move".into()).spawn(bring) {
        stays(format!("no thread to move it: {e}"));
    }
}

fn come_for_call(room: &Arc<Shared>, pid: i32) -> Result<Leg, MoveError> {
    let begun = Instant::now();
    loop {
        match back::run(room, pid, Wish::default(), Why::Called, Arc::default()) {
            Err(e) if e.is_momentary() && begun.elapsed() < COMES_WITHIN => std::thread::sleep(AGAIN_AFTER),
            ended => return ended,
        }
    }
}
