//! Runs the moves that the daemon orders: each in a thread of its own, watched by the tool that
//! waits for it.

use crate::migration::error::MoveError;
use crate::migration::inbound::{self, Why};
use crate::migration::outbound::{self, OutwardRequest};
use crate::migration::peer::hand_over;
use crate::room::peer::PeerRoom;
use crate::room::progress::{self, MoveProgress};
use crate::room::state::Room;
use control_protocol::moves::{HopReport, MoveOptions};
use migration_plan::Pace;
use os::warm::Standby;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Moves a process that runs at home to the room. `tool` waits for the outcome.
pub fn out(room: &Arc<Room>, pid: i32, request: OutwardRequest, tool: Option<OwnedFd>) -> Result<HopReport, String> {
    let options = request.options;
    let left =
        in_a_thread(room, &room.args.host, tool, move |room, progress| outbound::run(room, pid, request, progress));
    learn(room, options, left.map_err(|e| e.to_string()))
}

/// How a process was passed on.
pub enum Passed {
    /// The process runs there.
    There(HopReport),
    /// The process runs here, and can only go through home; the reason in words.
    Detour(String),
}

/// Passes a process on to another room.
pub fn pass(
    room: &Arc<Room>,
    pid: i32,
    beyond: PeerRoom,
    options: MoveOptions,
    tool: Option<OwnedFd>,
) -> Result<Passed, String> {
    let node = beyond.node.clone();
    let passed =
        in_a_thread(room, &node, tool, move |room, progress| hand_over::run(room, pid, &beyond, options, progress));
    match passed {
        Ok(leg) => learn(room, options, Ok(leg)).map(Passed::There),
        Err(e) if hand_over::is_final(&e) => Err(e.to_string()),
        Err(e) => Ok(Passed::Detour(e.to_string())),
    }
}

/// A request to bring a process home.
#[derive(Clone, Copy, Debug)]
pub struct HomewardRequest {
    /// How its memory shall come.
    pub options: MoveOptions,
    /// Processes that share memory with this one come as well, if there are any.
    pub family: bool,
}

/// Brings a process home from the room.
pub fn home(room: &Arc<Room>, pid: i32, request: HomewardRequest, tool: Option<OwnedFd>) -> Result<HopReport, String> {
    let HomewardRequest { options, family } = request;
    let why = if family { Why::Wished } else { Why::Alone };
    let came = in_a_thread(room, "home", tool, move |room, progress| inbound::run(room, pid, options, why, progress));
    learn(room, options, came.map_err(|e| e.to_string()))
}

/// A pace that was set says nothing about the next one.
fn learn(room: &Room, options: MoveOptions, moved: Result<HopReport, String>) -> Result<HopReport, String> {
    moved.inspect(|leg| {
        if options.pace == Pace::default() {
            room.sessions.learn(leg);
        }
    })
}

fn in_a_thread(
    room: &Arc<Room>,
    to: &str,
    tool: Option<OwnedFd>,
    run: impl FnOnce(&Arc<Room>, Arc<MoveProgress>) -> Result<HopReport, MoveError> + Send + 'static,
) -> Result<HopReport, MoveError> {
    let (there, progress) = (room.clone(), Arc::<MoveProgress>::default());
    let (ended, end) = channel();
    let moves = {
        let progress = progress.clone();
        move || {
            let moved = run(&there, progress);
            // What went wrong may have left threads stopped, which the kernel lets go when their
            // tracer ends.
            let is_well = moved.is_ok();
            // Nobody else waits at the other end.
            drop(ended.send(moved));
            is_well
        }
    };
    let thread = Standby::start().map_err(|e| MoveError::Silent(format!("no thread to move it: {e}")))?;
    thread.run_until(c"move", moves);
    progress::wait(&progress, to, tool.as_ref(), &end, || room.link.silent_ms()).ok_or(MoveError::Unexpected)?
}
