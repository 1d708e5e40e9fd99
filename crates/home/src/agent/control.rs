//! The steward's socket: what the local daemon wants.

use crate::agent::{connection, crossing};
use crate::deputy::homecoming::HomecomingPolicy;
use crate::deputy::placement_request::PlacementRequest;
use crate::deputy::record::Phase;
use crate::deputy::table::RoomState;
use crate::describe::confinement;
use crate::migration::awaited::Awaited;
use crate::migration::outbound::OutwardRequest;
use crate::migration::peer;
use crate::migration::peer::receive::Bringer;
use crate::migration::peer::steward_link::PACKET_BYTES;
use crate::migration::run::{self, HomewardRequest, Passed};
use crate::room::orders::Order;
use crate::room::peer::PeerRoom;
use crate::room::state::Room;
use control_protocol::steward::{FromSteward, Guest, LentSibling, ToSteward};
use os::contain::{Failure, contained, on_account_of};
use os::pidfd::PidFd;
use room_protocol::ToRoom;
use room_protocol::message::{Program, onward};
use std::io::{IoSlice, Read, Seek};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Arguments and environment of a program: execve's own bound is 2 MiB at the usual stack limit;
/// twice that fits any.
const PROGRAM_BYTES_MAX: u64 = 4 << 20;

/// How long a connection waits that could not be taken.
const REFUSED_FOR: Duration = Duration::from_millis(100);

/// Serves the socket for ever: one thread per connection, and daemons keep few.
pub fn serve(room: &Arc<Room>, listener: &OwnedFd) {
    loop {
        match os::socket::accept(listener.as_fd()) {
            Ok(socket) => {
                let room = room.clone();
                let spawned =
                    std::thread::Builder::new().name("control".into()).spawn(move || converse(&room, &socket));
                if let Err(e) = spawned {
                    tracing::error!("no thread for a daemon's connection: {e}");
                }
            }
            // For want of descriptors, say: the next one is taken when there is one.
            Err(e) => {
                tracing::error!("{e}");
                std::thread::sleep(REFUSED_FOR);
            }
        }
    }
}

fn converse(room: &Arc<Room>, socket: &OwnedFd) {
    while let Ok((packet, fds)) = os::socket::receive_whole(socket.as_fd(), PACKET_BYTES)
        && !packet.is_empty()
    {
        let message = postcard::from_bytes(&packet);
        let is_move = message.as_ref().is_ok_and(is_move);
        // What has become of a process is said, whatever else ends.
        let _awaited = is_move.then(|| Awaited::begin(room));
        let answer = match message {
            Ok(ToSteward::Receive { owner, .. }) if owner != room.args.owner => {
                tracing::warn!("a process of user {owner}'s room does not come to user {}'s", room.args.owner);
                return;
            }
            Ok(ToSteward::Receive { pid, ticket, from, outline, .. }) => {
                room.contain(Some(pid), || {
                    peer::receive::receive(room, socket, pid, Bringer { ticket, from }, &outline)
                });
                return;
            }
            Ok(ToSteward::Stream(sought)) => {
                if let Ok(socket) = socket.try_clone() {
                    room.contain(None, || crossing::follow(room, socket, &sought));
                }
                return;
            }
            Ok(message) => {
                let process = process(&message);
                let obeyed = contained(|| {
                    process.into_iter().for_each(on_account_of);
                    if is_move {
                        room.args.check_moves()?
                    }
                    obey(room, message, fds)
                });
                obeyed
                    .unwrap_or_else(|failure| Err(failed(room, &failure)))
                    .unwrap_or_else(|reason| FromSteward::Failed { reason })
            }
            Err(e) => FromSteward::Failed { reason: format!("malformed message: {e}") },
        };
        let sent =
            postcard::to_stdvec(&answer).map(|bytes| os::socket::send(socket.as_fd(), &[IoSlice::new(&bytes)], &[], 0));
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

fn is_move(message: &ToSteward) -> bool {
    matches!(message, ToSteward::Move { .. } | ToSteward::Recall { .. } | ToSteward::Pass { .. })
}

/// The process that an order is about.
fn process(message: &ToSteward) -> Option<i32> {
    match message {
        ToSteward::Place { caller, .. } => Some(caller.pid),
        ToSteward::Move { pid, .. } | ToSteward::Recall { pid, .. } | ToSteward::Pass { pid, .. } => Some(*pid),
        _ => None,
    }
}

/// The order failed, and says so; a guest that it was about ends. What an order has for itself
/// alone is gone with it: the room goes on.
fn failed(room: &Room, failure: &Failure) -> String {
    if failure.account.is_some() {
        room.failed(failure);
    }
    format!("the steward failed: {}", failure.words)
}

fn obey(room: &Arc<Room>, message: ToSteward, fds: Vec<OwnedFd>) -> Result<FromSteward, String> {
    let mut fds = fds.into_iter();
    match message {
        ToSteward::Warden => connection::connect(room, TcpStream::from(next(&mut fds)?)).map(|()| FromSteward::Ok),
        ToSteward::Place { caller, homecoming, home_devices } => {
            room.watchdog.is_there()?;
            let (socket, memfd) = (next(&mut fds)?, next(&mut fds)?);
            let coming = PlacementRequest::prove(caller, PidFd::from(next(&mut fds)?)).map_err(|e| e.to_string())?;
            place(
                room,
                PlacementRequest { manner: HomecomingPolicy::of(homecoming, home_devices), ..coming },
                socket,
                memfd,
            )
        }
        ToSteward::List => {
            room.refresh_usage();
            Ok(list(room))
        }
        ToSteward::Used => {
            room.ask_usage();
            let (host, owner) = (room.args.host.clone(), room.args.owner);
            Ok(FromSteward::Used { host, owner, cpu_us: room.table().room_us })
        }
        ToSteward::Why { pid } => Ok(FromSteward::Why { lines: why(room, pid) }),
        ToSteward::Calls { pid, family } => room.calls_of(pid, family).map(FromSteward::Calls),
        ToSteward::Queues => Ok(FromSteward::Queues(Box::new(room.queues()))),
        ToSteward::Traffic => {
            let counters = room.link.downlink().map(link::Sender::counters);
            Ok(FromSteward::Traffic {
                frames: counters.map_or(0, link::Counters::frames),
                bytes: counters.map_or(0, link::Counters::bytes),
            })
        }
        ToSteward::Move { pid, wish, asker_uid, sibling } => {
            room.watchdog.is_there()?;
            let request = OutwardRequest { options: wish, asker_uid, sibling: sibling.map(sibling_of) };
            room.check_awake().and_then(|()| run::out(room, pid, request, fds.next())).map(FromSteward::Moved)
        }
        ToSteward::Lend { pid, ticket, to } => lend(room, pid, onward::Order::Lend { ticket, to }),
        ToSteward::Recall { pid, wish, family } => {
            room.check_awake()?;
            run::home(room, pid, HomewardRequest { options: wish, family }, fds.next()).map(FromSteward::Moved)
        }
        ToSteward::Pass { pid, wish, to } => {
            room.check_awake()?;
            let beyond = PeerRoom { room: to.room, address: to.address, node: to.node, ticket: to.ticket };
            run::pass(room, pid, beyond, wish, fds.next()).map(|passed| match passed {
                Passed::There(leg) => FromSteward::Moved(leg),
                Passed::Detour(why) => FromSteward::Detour { why },
            })
        }
        ToSteward::Receive { .. } | ToSteward::Stream(_) => Err("that is no order of a daemon's".into()),
        ToSteward::Owner => Ok(FromSteward::Owner { uid: room.args.owner }),
        ToSteward::Kind => Ok(FromSteward::Kind { kind: room.args.kind }),
        ToSteward::Link => Ok(FromSteward::Link { silent_ms: room.link.silent_ms() }),
        ToSteward::Suspend { for_ms } => room.suspend(for_ms).map(|()| FromSteward::Ok),
        ToSteward::Wake => {
            room.wake();
            Ok(FromSteward::Ok)
        }
        ToSteward::Close => {
            // Who looks for this room from now on finds none, and makes another.
            let _ = std::fs::remove_file(room.args.socket());
            room.tell(&ToRoom::Close);
            room.lost("the room was closed");
            Ok(FromSteward::Ok)
        }
    }
}

/// The process whose pages the room is to fetch.
fn sibling_of(LentSibling { pid, at }: LentSibling) -> onward::Sibling {
    let lane = onward::Lane { ticket: at.ticket, node: at.node, address: at.address, room: at.room.0 };
    onward::Sibling { pid, lane }
}

/// Has the room lend the pages of a process, which must run there.
fn lend(room: &Room, pid: i32, order: onward::Order) -> Result<FromSteward, String> {
    if room.table().deputies.get(&pid).is_none_or(|deputy| deputy.phase != Phase::Away) {
        return Err(format!("process {pid} does not run on {}", room.args.host));
    }
    room.tell(&ToRoom::Onward { pid, order });
    Ok(FromSteward::Ok)
}

fn next(fds: &mut impl Iterator<Item = OwnedFd>) -> Result<OwnedFd, String> {
    fds.next().ok_or_else(|| "a descriptor is missing".to_owned())
}

fn place(room: &Room, coming: PlacementRequest, socket: OwnedFd, memfd: OwnedFd) -> Result<FromSteward, String> {
    os::fault::at("place").map_err(|e| e.to_string())?;
    if let RoomState::Lost(why) = &room.table().room {
        return Err(why.clone());
    }
    room.check_awake()?;
    let pid = coming.proof.pid();
    room.vigil.over_beginning();
    // The room makes its process meanwhile.
    room.expect(pid);
    let arranged = arrange(room, coming, socket, memfd);
    if arranged.is_err() {
        room.tell(&ToRoom::Kill { pid });
    }
    arranged.map(|()| FromSteward::Ok)
}

fn arrange(room: &Room, coming: PlacementRequest, socket: OwnedFd, memfd: OwnedFd) -> Result<(), String> {
    let pid = coming.proof.pid();
    let status = os::process::status(pid).map_err(|e| e.to_string())?;
    room.args.check_owner(pid, &status.uid[..3])?;
    confinement::refuse_newcomer(&room.watchdog, pid)?;
    // From here on each packet must be the process' own.
    packet::name_senders(&socket, packet::Naming::ByNumber).map_err(|e| format!("preparing its channel: {e}"))?;
    let (program, blocked) = read_program(memfd).map_err(|e| format!("reading the program's arguments: {e}"))?;
    let placing = control_protocol::tool::placing(&room.args.host).map_err(|e| e.to_string())?;
    os::socket::send(socket.as_fd(), &[IoSlice::new(&placing)], &[], 0)
        .map_err(|e| format!("the process has gone: {e}"))?;
    room.poller.order(Order::Arrive { coming, channel: socket, program, blocked });
    Ok(())
}

fn read_program(memfd: OwnedFd) -> std::io::Result<(Program, u64)> {
    let mut file = std::fs::File::from(memfd);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(PROGRAM_BYTES_MAX).read_to_end(&mut bytes)?;
    let control_protocol::steward::Program { path, argv, envp, blocked } =
        postcard::from_bytes(&bytes).map_err(std::io::Error::other)?;
    Ok((Program { path, argv, envp }, blocked))
}

fn list(room: &Room) -> FromSteward {
    let table = room.table();
    let guests = table.deputies.iter().map(|(pid, deputy)| {
        let usage = deputy.usage.as_ref();
        Guest {
            pid: *pid,
            uid: deputy.credentials.uid[0],
            // A body that is stopped shows a tracee's stop where it is.
            state: if deputy.stopped { 'T' } else { usage.map_or(Guest::UNTOLD, |u| u.state) },
            // What it has used at home before it left, and its deputy for it, is its own too.
            cpu_us: usage.map_or(0, |u| u.cpu_us) + os::process::cpu_us(*pid).unwrap_or(0),
            rss_bytes: usage.map_or(0, |u| u.rss_bytes),
            threads: usage.map_or(deputy.threads.len() as u32, |u| u.threads),
            calls: deputy.calls,
            command: deputy.program.argv.iter().map(|a| String::from_utf8_lossy(a)).collect::<Vec<_>>().join(" "),
        }
    });
    FromSteward::Guests {
        host: room.args.host.clone(),
        connected: table.room == RoomState::Ready,
        guests: guests.collect(),
    }
}

fn why(room: &Room, pid: i32) -> Vec<String> {
    let table = room.table();
    let Some(deputy) = table.deputies.get(&pid) else { return Vec::new() };
    let mut lines = vec![format!("process {pid} runs on {}", room.args.host)];
    if let Some(tracer) = os::process::tracer(pid) {
        lines.push(format!("process {tracer} (a debugger) holds its deputy, not the program: end that, and `tern move {pid} home` first"));
    }
    lines.extend(deputy.refusals.iter().cloned());
    lines
}
