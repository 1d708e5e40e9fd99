//! A process that waits in the room for a call that only home can serve comes home by itself;
//! before it whom it calls for, in whichever room that is.

use crate::deputy::record::{Deputy, Phase};
use crate::deputy::{channel, errand};
use crate::migration::error::MoveError;
use crate::migration::inbound::{self, Why};
use crate::migration::peer::steward_link::PACKET_BYTES;
use crate::room::history;
use crate::room::orders::HomeCall;
use crate::room::state::Room;
use checkpoint::BodyError;
use control_protocol::history::Happening;
use control_protocol::moves::{HopReport, MoveOptions};
use control_protocol::steward::{FromSteward, ToSteward};
use room_protocol::ToRoom;
use room_protocol::message::Errand;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For so long a process that must come home is brought again when something stands in the way for
/// a moment: its call fails else.
const COMES_WITHIN: Duration = Duration::from_secs(20);
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Exit status of a process that was not to run at home (that of `tern run` when tern itself
/// fails).
const FAILED: u64 = 125;

/// Brings a process home that waits for it in a call; the room is told if that cannot be done.
pub fn bring_home(room: &Arc<Room>, called: HomeCall) {
    let pid = called.pid;
    if let Err(why) = room.args.check_moves() {
        return room.tell(&ToRoom::Stays { pid, why });
    }
    if let Some(under_way) = room.sessions.lock().get_mut(&pid).filter(|u| !u.residue_pending) {
        // On its way home it is stopped in its call, which is made again there; else it may be that
        // it goes on waiting here.
        under_way.wanted_home = Some(called).filter(|_| !under_way.returning);
        return;
    }
    {
        let mut table = room.table();
        let Some(deputy) = table.deputies.get_mut(&pid) else { return };
        if forbid(pid, deputy, &room.args.host, &called.errand) {
            return;
        }
        let deputy_fd = deputy.pidfd.clone();
        deputy.announcement = deputy.manner.announcement(pid, &deputy_fd, &room.args.host, &called.errand);
    }
    let stays = |why: String| room.tell(&ToRoom::Stays { pid, why });
    let (there, task) = (room.clone(), room.clone());
    let bring = move || {
        if !task.sessions.wait_for_residue(pid) {
            return;
        }
        let came = match called.first {
            Some(first) => bring_first(&task, pid, first),
            None => Ok(()),
        };
        match came.and_then(|()| come_for_call(&task, pid).map_err(|e| e.to_string())) {
            Ok(leg) => {
                tracing::info!("process {pid} came home for {}", errand::words(&called.errand));
                note(&task, pid, errand::words(&called.errand), errand::help(&called.errand), &leg);
            }
            Err(why) => {
                tracing::warn!(
                    "process {pid} cannot come home for {}, so that fails: {why}",
                    errand::words(&called.errand)
                );
                if let Some(announcement) =
                    there.table().deputies.get_mut(&pid).and_then(|deputy| deputy.announcement.take())
                {
                    announcement.unmade(&why);
                }
                there.tell(&ToRoom::Stays { pid, why });
            }
        }
    };
    if let Err(e) = std::thread::Builder::new().name("move".into()).spawn(bring) {
        stays(format!("no thread to move it: {e}"));
    }
}

/// Ends a process that was to go home, and must not. False: it may go, or its pages are still
/// needed.
fn forbid(pid: i32, deputy: &mut Deputy, host: &str, errand: &Errand) -> bool {
    if !deputy.manner.forbids(errand) || deputy.lends || deputy.phase != Phase::Away {
        return false;
    }
    let help = errand::help(errand).map_or(String::new(), |help| format!("; {help}"));
    let why = errand::words(errand);
    tracing::info!("process {pid} ends: tern run --strict, and only home serves {why}");
    let words =
        format!("tern: process {pid} ends (tern run --strict): it would have to leave {host} for {why}{help}\n");
    deputy.end(channel::order(abi::OP_EXIT, [FAILED, 0], &[]), Some(&words));
    // Its body runs yet: the room is told to end it when the deputy has ended.
    deputy.phase = Phase::Away;
    true
}

/// Notes that process `pid` came home by itself: why, and what would have kept it away.
fn note(room: &Room, pid: i32, why: String, help: Option<String>, leg: &HopReport) {
    let from = room.args.host.clone();
    let came = Happening::CameHome { from, why, help, freeze_us: leg.freeze_us };
    history::note(&room.args.run_dir, pid, came);
}

fn come_for_call(room: &Arc<Room>, pid: i32) -> Result<HopReport, MoveError> {
    let begun = Instant::now();
    loop {
        match inbound::run(room, pid, MoveOptions::default(), Why::HomeCall, Arc::default()) {
            Err(e) if e.is_momentary() && begun.elapsed() < COMES_WITHIN => std::thread::sleep(AGAIN_AFTER),
            ended => return ended,
        }
    }
}

/// Brings process `first` home, if it is away and process `pid` may look into it. The kernel asks
/// for more (`__ptrace_may_access`), and is asked when both are here.
fn bring_first(room: &Arc<Room>, pid: i32, first: i32) -> Result<(), String> {
    let user = |pid| os::process::status(pid).map(|status| status.uid[0]);
    let (Ok(looks), Ok(looked_into)) = (user(pid), user(first)) else { return Ok(()) };
    if looks != 0 && looks != looked_into {
        return Ok(());
    }
    let came = if room.table().deputies.contains_key(&first) {
        match come_for_call(room, first) {
            Err(MoveError::NotAway | MoveError::Body(BodyError::Exited)) => Ok(()),
            Ok(leg) => {
                note(room, first, format!("process {pid}, which looks into it (ptrace)"), None, &leg);
                Ok(())
            }
            Err(e) => Err(e.to_string()),
        }
    } else {
        others_of(room).iter().find_map(|steward| recall(steward, first)).unwrap_or(Ok(()))
    };
    came.map_err(|e| format!("process {first}, for which it calls, is away and cannot come home: {e}"))
}

/// The sockets of the other stewards of this home.
fn others_of(room: &Room) -> Vec<OwnedFd> {
    let own = room.args.socket();
    let all = own.parent().and_then(|rooms| std::fs::read_dir(rooms).ok()).into_iter().flatten().flatten();
    let stewards = all.map(|entry| entry.path()).filter(|path| *path != own && path.extension() == own.extension());
    // One that has ended has nobody.
    stewards.filter_map(|path: std::path::PathBuf| os::socket::connect(Path::new(&path)).ok()).collect()
}

/// Has another steward bring this process home. None: it does not have it.
fn recall(steward: &OwnedFd, pid: i32) -> Option<Result<(), String>> {
    match ask(steward, &ToSteward::Why { pid })? {
        FromSteward::Why { lines } if !lines.is_empty() => {}
        _ => return None,
    }
    match ask(steward, &ToSteward::Recall { pid, wish: MoveOptions::default(), family: true })? {
        FromSteward::Failed { reason } => Some(Err(reason)),
        _ => Some(Ok(())),
    }
}

fn ask(steward: &OwnedFd, message: &ToSteward) -> Option<FromSteward> {
    let bytes = postcard::to_stdvec(message).ok()?;
    os::socket::send(steward.as_fd(), &[IoSlice::new(&bytes)], &[], 0).ok()?;
    let (packet, _) = os::socket::receive_whole(steward.as_fd(), PACKET_BYTES).ok()?;
    postcard::from_bytes(&packet).ok()
}
