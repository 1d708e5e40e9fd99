//! The TCP port: members, newcomers, and wardens on their way to a steward or to another warden.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::coscheduling::HostedOrder;
use control_protocol::drain::DrainOrder;
use control_protocol::facts::{Facts, Load};
use control_protocol::guests::TakenBack;
use control_protocol::peer::{JoinAnswer, JoinRequest, MEMBERS_MAX, Member, PeerAnswer, PeerRequest, PulseEntry};
use control_protocol::sampling::Sampling;
use control_protocol::steward::{PREAMBLE_BYTES, Preamble, RoomId};
use identity::{NodeId, NodeName};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::balance::admission;
use crate::daemon::Daemon;
use crate::hosting::Wanted;
use crate::locks::lock;
use crate::recall::Recall;
use crate::strangers::{Stranger, Strangers};
use crate::stream::{StreamError, read_message, within, write_message};
use crate::swim::commands::Command;
use crate::{
    admit, coscheduling, draining, hosting, hosts, power, recall, refuge, reserve, rooms, sampling, suspending,
};

/// Members' connections served at once. Strangers have no part in them.
const MEMBERS_SERVED_MAX: usize = 512;
/// Bound on the preamble and on the handshake, each.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// A connection on which nothing is asked for so long is closed.
const IDLE: Duration = Duration::from_secs(30);

/// Accepts until the daemon ends.
pub(crate) async fn run(daemon: Arc<Daemon>, listener: TcpListener) {
    let room_for_members = Arc::new(Semaphore::new(MEMBERS_SERVED_MAX));
    let strangers = Arc::new(Strangers::default());
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let (daemon, members) = (Arc::clone(&daemon), Arc::clone(&room_for_members));
                let (stranger, evicted) = strangers.take_in(from.ip());
                tokio::spawn(async move {
                    if let Err(e) = connection(&daemon, stream, stranger, evicted, &members).await {
                        tracing::debug!(%from, "connection closed: {e}");
                    }
                });
            }
            Err(e) => {
                // Out of descriptors or the like: give it time rather than spin.
                tracing::warn!("accept: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// A member's control connection, both ends verified.
struct Verified {
    stream: TlsStream<TcpStream>,
    name: NodeName,
    id: NodeId,
}

/// Learns who is there, as long as it is not evicted for others; then serves a member without that
/// bound.
async fn connection(
    daemon: &Arc<Daemon>,
    stream: TcpStream,
    stranger: Stranger,
    evicted: oneshot::Receiver<()>,
    room_for_members: &Semaphore,
) -> Result<(), StreamError> {
    let crowded = |why: &'static str| std::io::Error::new(std::io::ErrorKind::QuotaExceeded, why);
    let member = tokio::select! {
        greeted = greet(daemon, stream) => greeted?,
        _ = evicted => return Err(crowded("others came that said as little").into()),
    };
    drop(stranger);
    let Some(member) = member else { return Ok(()) };
    let _permit = room_for_members.try_acquire().map_err(|_| crowded("too many members ask at once"))?;
    serve_member(daemon, member).await
}

/// Does what a stranger may ask for; a member's connection is given back.
async fn greet(daemon: &Arc<Daemon>, mut stream: TcpStream) -> Result<Option<Verified>, StreamError> {
    stream.set_nodelay(true)?;
    let mut preamble = [0; PREAMBLE_BYTES];
    within(HELLO_WITHIN, stream.read_exact(&mut preamble)).await?;
    match Preamble::decode(&preamble) {
        Some(Preamble::Control) => verify(daemon, stream).await.map(Some),
        Some(Preamble::Join) => newcomer(daemon, stream).await.map(|()| None),
        Some(Preamble::Room(room)) => warden(daemon, stream, room).map(|()| None),
        Some(Preamble::Lane(room)) => lane(daemon, stream, room).map(|()| None),
        None => Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "not a daemon's preamble").into()),
    }
}

async fn verify(daemon: &Arc<Daemon>, stream: TcpStream) -> Result<Verified, StreamError> {
    let acceptor = TlsAcceptor::from(daemon.identity.server_config());
    let stream = within(HELLO_WITHIN, acceptor.accept(stream)).await?;
    let (name, id) = identity::peer(stream.get_ref().1.peer_certificates()).map_err(std::io::Error::other)?;
    Ok(Verified { stream, name, id })
}

async fn serve_member(daemon: &Arc<Daemon>, Verified { mut stream, name, id }: Verified) -> Result<(), StreamError> {
    while let Some(request) = within(IDLE, read_message::<PeerRequest>(&mut stream)).await? {
        let received_us = daemon.wall_clock_us();
        let answer = answer(daemon, &name, id, request, received_us).await;
        within(IDLE, write_message(&mut stream, &answer)).await?;
    }
    Ok(())
}

async fn answer(
    daemon: &Arc<Daemon>,
    name: &NodeName,
    id: NodeId,
    request: PeerRequest,
    received_us: i64,
) -> PeerAnswer {
    match request {
        PeerRequest::Clock => PeerAnswer::Clock { received_us },
        PeerRequest::Facts => {
            let trying = Arc::clone(daemon);
            match tokio::task::spawn_blocking(move || trying.facts().clone()).await {
                Ok(facts) => {
                    let facts = Facts { rooms_max: daemon.rooms_max(), ..facts };
                    PeerAnswer::Facts { facts, load: daemon.load() }
                }
                Err(e) => PeerAnswer::Failed { reason: e.to_string() },
            }
        }
        PeerRequest::Enter { me, load } => enter(daemon, name, id, me, load).await,
        PeerRequest::HostRoom { room, address, owner, kind } => {
            let hosted = hosting::host(daemon, name, &Wanted { room, address, owner, kind });
            done_or(hosted.map_err(|e| e.chain()))
        }
        PeerRequest::Admit { ask } => {
            done_or(admission::admit(daemon, name.as_str(), id.0, &ask).map_err(|refusal| refusal.to_string()))
        }
        PeerRequest::Reserve { need, room, force } => done_or(reserve::judge(daemon, id.0, &need, room, force)),
        PeerRequest::Settle { process, has_come } => {
            admission::settle(daemon, id.0, process, has_come);
            PeerAnswer::Done
        }
        PeerRequest::TakeBack { pids, again, reason } => {
            let (daemon, name) = (Arc::clone(daemon), name.clone());
            let take = move || recall::take_back(&daemon, Recall { from: Some(name.as_str()), again, reason }, &pids);
            taking_back(tokio::task::spawn_blocking(take).await)
        }
        PeerRequest::WhereTo { pids } => {
            let (daemon, name) = (Arc::clone(daemon), name.clone());
            taking_back(tokio::task::spawn_blocking(move || refuge::foresee(&daemon, name.as_str(), &pids)).await)
        }
        PeerRequest::ClaimHost { claim, renews } => hosts::judge(daemon, id.0, claim, renews),
        PeerRequest::ReleaseHost { holder } => {
            lock(&daemon.grants).release(::policy::Holder { home: id.0, ..holder });
            PeerAnswer::Done
        }
        PeerRequest::Suspend { for_ms } => suspended(daemon, name, id, Some(for_ms)).await,
        PeerRequest::Wake => suspended(daemon, name, id, None).await,
        PeerRequest::Drain(order) => drain(daemon, name, order).await,
        PeerRequest::Power(order) => done_or(power::obey(daemon, name, order)),
        PeerRequest::Sample(order) => sample(daemon, name, order).await,
        PeerRequest::Coschedule(order) => coschedule(daemon, name, order).await,
        PeerRequest::Vacate => {
            let (daemon, name) = (Arc::clone(daemon), name.clone());
            done(tokio::task::spawn_blocking(move || rooms::vacate(&daemon, Some(name.as_str()))).await)
        }
        PeerRequest::Leave { id: leaving } if leaving == id.0 => {
            tracing::info!("{name} leaves the cluster");
            daemon.swim.tell(Command::Gone(leaving)).await;
            PeerAnswer::Done
        }
        PeerRequest::Leave { .. } => PeerAnswer::Failed { reason: "a node can only leave for itself".into() },
    }
}

/// Tells what was done, or the reason why not.
fn done_or(result: Result<(), String>) -> PeerAnswer {
    result.map_or_else(|reason| PeerAnswer::Failed { reason }, |()| PeerAnswer::Done)
}

/// A member is about to be suspended, for this time, or is there again.
async fn suspended(daemon: &Arc<Daemon>, name: &NodeName, id: NodeId, for_ms: Option<u32>) -> PeerAnswer {
    let (daemon, name) = (Arc::clone(daemon), name.clone());
    let told = move || match for_ms {
        Some(for_ms) => suspending::is_suspended(&daemon, id.0, name.as_str(), for_ms),
        None => suspending::is_awake(&daemon, id.0, name.as_str()),
    };
    done(tokio::task::spawn_blocking(told).await)
}

fn done(result: Result<Result<(), String>, tokio::task::JoinError>) -> PeerAnswer {
    match result {
        Ok(Ok(())) => PeerAnswer::Done,
        Ok(Err(reason)) => PeerAnswer::Failed { reason },
        Err(e) => PeerAnswer::Failed { reason: e.to_string() },
    }
}

fn taking_back(taken: Result<Vec<TakenBack>, tokio::task::JoinError>) -> PeerAnswer {
    taken.map_or_else(|e| PeerAnswer::Failed { reason: e.to_string() }, PeerAnswer::TakingBack)
}

/// Drains this node as root of another one wants, if this node's owner allows that.
async fn drain(daemon: &Arc<Daemon>, name: &NodeName, order: DrainOrder) -> PeerAnswer {
    let settings = daemon.policy.settings();
    if ![settings.drain_by, settings.admin_by].iter().any(|nodes| nodes.includes(name.as_str())) {
        let me = daemon.me().name;
        let reason = format!(
            "its owner does not allow {name} to drain it (there: tern policy set drain-by={name}, or tern drain {me})"
        );
        return PeerAnswer::Failed { reason };
    }
    tracing::info!("{name} asks: {order:?}");
    let draining = Arc::clone(daemon);
    match tokio::task::spawn_blocking(move || draining::obey(&draining, order)).await {
        Ok(Ok(report)) => PeerAnswer::Drain(report),
        Ok(Err(e)) => PeerAnswer::Failed { reason: e.chain() },
        Err(e) => PeerAnswer::Failed { reason: e.to_string() },
    }
}

async fn sample(daemon: &Arc<Daemon>, name: &NodeName, order: Sampling) -> PeerAnswer {
    let (daemon, name) = (Arc::clone(daemon), name.clone());
    match tokio::task::spawn_blocking(move || sampling::obey(&daemon, &name, order)).await {
        Ok(Ok(sampled)) => PeerAnswer::Sampled(sampled),
        Ok(Err(reason)) => PeerAnswer::Failed { reason },
        Err(e) => PeerAnswer::Failed { reason: e.to_string() },
    }
}

async fn coschedule(daemon: &Arc<Daemon>, name: &NodeName, order: HostedOrder) -> PeerAnswer {
    let (daemon, name) = (Arc::clone(daemon), name.clone());
    match tokio::task::spawn_blocking(move || coscheduling::obey(&daemon, &name, order)).await {
        Ok(Ok(job)) => PeerAnswer::Coscheduled(job),
        Ok(Err(reason)) => PeerAnswer::Failed { reason },
        Err(e) => PeerAnswer::Failed { reason: e.to_string() },
    }
}

/// A member's daemon has started: its certificate must say what it says.
async fn enter(daemon: &Arc<Daemon>, name: &NodeName, id: NodeId, me: Member, load: Load) -> PeerAnswer {
    if me.name != name.as_str() || me.id != id.0 {
        return PeerAnswer::Failed { reason: format!("your certificate is {name}'s") };
    }
    let now = Instant::now();
    let others_name = daemon.table().by_name(name.as_str()).is_some_and(|k| k.member.id != id.0 && k.alive);
    if others_name || name == daemon.identity.node() {
        return PeerAnswer::Failed { reason: format!("the name {name} belongs to another node now") };
    }
    daemon.table().remember(me.clone(), false, now);
    daemon.table().note_load(me.id, &PulseEntry { id: me.id, age_ms: 0, load }, now);
    daemon.swim.tell(Command::Alive(vec![me])).await;
    PeerAnswer::Members { members: daemon.everybody(), loads: daemon.pulse_entries(MEMBERS_MAX) }
}

async fn newcomer(daemon: &Arc<Daemon>, stream: TcpStream) -> Result<(), StreamError> {
    let from = stream.peer_addr()?;
    let acceptor = TlsAcceptor::from(daemon.identity.admission_config());
    let mut stream = within(HELLO_WITHIN, acceptor.accept(stream)).await?;
    let Some(request) = within(HELLO_WITHIN, read_message::<JoinRequest>(&mut stream)).await? else { return Ok(()) };
    let answer = match admit::admit(daemon, &request) {
        Ok(admitted) => {
            tracing::info!(%from, "{:?} admitted", request.name);
            admitted
        }
        Err(e) => {
            tracing::warn!(%from, "newcomer refused: {}", e.chain());
            JoinAnswer::Refused { reason: e.chain() }
        }
    };
    within(HELLO_WITHIN, write_message(&mut stream, &answer)).await
}

/// Hands the bare socket to the steward, which does the handshake and verifies who it is.
fn warden(daemon: &Arc<Daemon>, stream: TcpStream, room: RoomId) -> Result<(), StreamError> {
    if !rooms::is_ours(daemon, room) {
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no such room").into());
    }
    let socket = stream.into_std()?;
    socket.set_nonblocking(false)?;
    let daemon = Arc::clone(daemon);
    tokio::task::spawn_blocking(move || rooms::arrived(&daemon, room, &OwnedFd::from(socket)));
    Ok(())
}

/// Hands the bare socket to the warden of a room that is hosted here, which verifies who it is.
fn lane(daemon: &Arc<Daemon>, stream: TcpStream, room: RoomId) -> Result<(), StreamError> {
    let path = control_protocol::paths::warden_socket(&daemon.options.run_dir, room);
    let socket = stream.into_std()?;
    socket.set_nonblocking(false)?;
    tokio::task::spawn_blocking(move || {
        let handed = packet::connect(&path).and_then(|warden| packet::send(warden.as_fd(), &[1], &[socket.as_fd()]));
        if let Err(e) = handed {
            tracing::info!("a process that comes to room {room} is not let in: {e}");
        }
    });
    Ok(())
}
