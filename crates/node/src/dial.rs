//! Talking to another member's daemon.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use control_protocol::peer::{MEMBERS_MAX, Member, PeerAnswer, PeerRequest};
use control_protocol::steward::Preamble;
use identity::NodeName;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Error;
use crate::daemon::Daemon;
use crate::placement::Survey;
use crate::stream::{StreamError, read_message, within, write_message};
use crate::swim::commands::Command;

/// Bound on connecting and on the handshake, each: the kernel tries to connect once more after a
/// second, and a user hears within three that a node does not answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Bound on one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Clock readings; the one with the shortest round trip counts.
const CLOCK_READINGS: usize = 5;
/// Members asked at once when entering.
const ASKED_AT_ONCE: usize = 3;

/// A control connection to a member, verified both ways.
pub(crate) struct Session {
    member: Member,
    stream: TlsStream<TcpStream>,
}

impl Session {
    pub(crate) async fn open(daemon: &Daemon, member: &Member) -> Result<Session, Error> {
        let unreachable = |e: StreamError| Error::Unreachable {
            node: member.name.clone(),
            address: member.address,
            why: e.to_string(),
        };
        let name = identity::server_name(&NodeName::new(member.name.as_str())?)?;
        let mut tcp = within(CONNECT_WITHIN, TcpStream::connect(member.address)).await.map_err(unreachable)?;
        let connect = async {
            tcp.set_nodelay(true)?;
            tcp.write_all(&Preamble::Control.encode()).await?;
            TlsConnector::from(daemon.identity.client_config()).connect(name, tcp).await
        };
        let stream = within(CONNECT_WITHIN, connect).await.map_err(unreachable)?;
        Ok(Session { member: member.clone(), stream })
    }

    pub(crate) async fn ask(&mut self, request: &PeerRequest) -> Result<PeerAnswer, Error> {
        let exchange = async {
            write_message(&mut self.stream, request).await?;
            read_message(&mut self.stream)
                .await?
                .ok_or_else(|| StreamError::Io(std::io::ErrorKind::UnexpectedEof.into()))
        };
        match within(ANSWER_WITHIN, exchange).await {
            Ok(PeerAnswer::Failed { reason }) => Err(Error::Refused { node: self.member.name.clone(), reason }),
            Ok(answer) => Ok(answer),
            Err(e) => Err(Error::Unreachable {
                node: self.member.name.clone(),
                address: self.member.address,
                why: e.to_string(),
            }),
        }
    }

    /// What the node is, and how its clock stands against ours.
    pub(crate) async fn survey(&mut self, daemon: &Daemon) -> Result<Survey, Error> {
        let unexpected = |node: &str| Error::Refused { node: node.into(), reason: "unexpected answer".into() };
        let PeerAnswer::Facts { facts, load } = self.ask(&PeerRequest::Facts).await? else {
            return Err(unexpected(&self.member.name));
        };
        let mut best: Option<(Duration, i64)> = None;
        for _ in 0..CLOCK_READINGS {
            let (start, start_us) = (Instant::now(), daemon.wall_clock_us());
            let PeerAnswer::Clock { received_us } = self.ask(&PeerRequest::Clock).await? else {
                return Err(unexpected(&self.member.name));
            };
            let round_trip = start.elapsed();
            let half_us = i64::try_from(round_trip.as_micros() / 2).unwrap_or(i64::MAX);
            let skew_us = received_us.saturating_sub(start_us.saturating_add(half_us));
            if best.is_none_or(|(shortest, _)| round_trip < shortest) {
                best = Some((round_trip, skew_us));
            }
        }
        let (round_trip, skew_us) = best.unwrap_or_default();
        Ok(Survey {
            facts,
            load,
            shows_clock: false,
            skew_us,
            skew_error_us: i64::try_from(round_trip.as_micros() / 2).unwrap_or(i64::MAX),
        })
    }
}

/// Tells some members that this daemon is there, and takes over whom they know. Tries all known
/// ones, a few at a time, until one answers.
pub(crate) async fn enter(daemon: &Arc<Daemon>) {
    let known: Vec<Member> =
        daemon.table().iter().filter(|k| k.member.address.port() != 0).map(|k| k.member.clone()).collect();
    for group in known.chunks(ASKED_AT_ONCE) {
        let mut tries = tokio::task::JoinSet::new();
        for member in group {
            let (daemon, member) = (Arc::clone(daemon), member.clone());
            tries.spawn(async move { ask_members(&daemon, &member).await });
        }
        let mut entered = false;
        while let Some(result) = tries.join_next().await {
            match result {
                Ok(Ok(())) => entered = true,
                Ok(Err(e)) => tracing::debug!("entering: {}", e.chain()),
                Err(e) => tracing::warn!("entering: {e}"),
            }
        }
        if entered {
            return;
        }
    }
}

/// Takes over whom this member knows, and tells it of this node.
pub(crate) async fn compare_members(daemon: &Arc<Daemon>, member: &Member) {
    match ask_members(daemon, member).await {
        Ok(()) => {}
        Err(e) => tracing::debug!("comparing members: {}", e.chain()),
    }
}

async fn ask_members(daemon: &Arc<Daemon>, member: &Member) -> Result<(), Error> {
    let mut session = Session::open(daemon, member).await?;
    let request = PeerRequest::Enter { me: daemon.me(), load: daemon.load() };
    if let PeerAnswer::Members { members, loads } = session.ask(&request).await? {
        let others: Vec<Member> = members.into_iter().take(MEMBERS_MAX).filter(|m| m.id != daemon.me().id).collect();
        daemon.hear_of(member.id, &others, &loads);
        daemon.swim.tell(Command::Alive(others)).await;
    }
    Ok(())
}

/// Tells all living members that this node leaves for good. Who does not hear of it sees it as
/// down.
pub(crate) async fn say_goodbye(daemon: &Arc<Daemon>) {
    let me = daemon.me();
    let mut tries = tokio::task::JoinSet::new();
    for member in daemon.everybody().into_iter().filter(|m| m.id != me.id) {
        let daemon = Arc::clone(daemon);
        tries.spawn(async move {
            let mut session = Session::open(&daemon, &member).await?;
            session.ask(&PeerRequest::Leave { id: daemon.me().id }).await
        });
    }
    while let Some(result) = tries.join_next().await {
        if let Ok(Err(e)) = result {
            tracing::info!("leaving: {}", e.chain());
        }
    }
    let (done, told) = tokio::sync::oneshot::channel();
    daemon.swim.tell(Command::Leave(done)).await;
    let _ = told.await;
}

/// Looks for the others, unless that is under way.
pub(crate) fn enter_again(daemon: &Arc<Daemon>) {
    if daemon.table().iter().next().is_some() && !daemon.entering.swap(true, Ordering::Relaxed) {
        let looking = Arc::clone(daemon);
        daemon.runtime.spawn(async move {
            enter(&looking).await;
            looking.entering.store(false, Ordering::Relaxed);
        });
    }
}
