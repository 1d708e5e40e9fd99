//! The control socket: threads that accept and serve, blocking, bounded. The kernel says who asks.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::policy::accounts::Used;
use control_protocol::codec::{decode, encode};
use control_protocol::history::{By, Happening};
use control_protocol::steward::RoomKind;
use control_protocol::tool::{ANSWER_BYTES, Answer, Homecoming, REQUEST_BYTES, Request, packets};
use packet::{FromSender, Peer, Sender};

use crate::caller::{self, ProvenCaller};
use crate::choice::{Chosen, Failed, Target};
use crate::daemon::Daemon;
use crate::locks::lock;
use crate::root_trust::Hosts;
use crate::steward::Placed;
use crate::{Error, answers, choice, client, history, leave, reserve, root_trust, steward};

/// Bound on receiving a request and sending an answer.
const CLIENT_WITHIN: Duration = Duration::from_secs(5);
/// Requests served at once, in all and for one user.
const SERVED_MAX: usize = 512;
const SERVED_PER_USER_MAX: usize = 128;
/// Threads that may wait for requests; what a burst needs beyond them ends after it.
const IDLE_MAX: usize = 8;
/// Stack of such a thread, bytes.
const STACK_BYTES: usize = 512 << 10;

/// How many requests are served for each user.
#[derive(Default)]
struct Served(Mutex<HashMap<u32, usize>>);

/// One place in it, given back when dropped.
struct Place {
    served: Arc<Served>,
    uid: u32,
}

impl Served {
    fn take(self: &Arc<Self>, uid: u32) -> Option<Place> {
        let mut counts = lock(&self.0);
        if counts.values().sum::<usize>() >= SERVED_MAX
            || counts.get(&uid).is_some_and(|n| *n >= SERVED_PER_USER_MAX && uid != 0)
        {
            return None;
        }
        *counts.entry(uid).or_default() += 1;
        Some(Place { served: Arc::clone(self), uid })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.served.0);
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

/// The threads that serve: some always wait in accept(2), so that a request is served by the thread
/// that it wakes.
pub(crate) struct Workers {
    daemon: Arc<Daemon>,
    listener: OwnedFd,
    served: Arc<Served>,
    idle: AtomicUsize,
}

impl Workers {
    /// Starts serving; it ends with the process.
    ///
    /// # Errors
    /// If not even one thread can be made.
    pub(crate) fn start(daemon: Arc<Daemon>, listener: OwnedFd) -> std::io::Result<()> {
        Arc::new(Workers { daemon, listener, served: Arc::default(), idle: AtomicUsize::new(0) }).add()
    }

    fn add(self: &Arc<Self>) -> std::io::Result<()> {
        let workers = Arc::clone(self);
        self.idle.fetch_add(1, Ordering::AcqRel);
        let spawned =
            std::thread::Builder::new().name("request".into()).stack_size(STACK_BYTES).spawn(move || workers.work());
        if spawned.is_err() {
            self.idle.fetch_sub(1, Ordering::AcqRel);
        }
        spawned.map(drop)
    }

    /// Counted as idle on entry and whenever it waits. Ends when enough others wait.
    fn work(self: Arc<Self>) {
        loop {
            let accepted =
                packet::accept(&self.listener).and_then(|socket| packet::peer(&socket).map(|peer| (socket, peer)));
            if self.idle.fetch_sub(1, Ordering::AcqRel) == 1
                && let Err(e) = self.add()
            {
                tracing::warn!("no further thread for requests: {e}");
            }
            match accepted {
                Ok((socket, peer)) => self.serve(&socket, peer),
                Err(e) => {
                    tracing::warn!("control socket: {e}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            if self.idle.fetch_add(1, Ordering::AcqRel) >= IDLE_MAX {
                self.idle.fetch_sub(1, Ordering::AcqRel);
                return;
            }
        }
    }

    fn serve(&self, socket: &OwnedFd, peer: Peer) {
        match self.served.take(peer.uid) {
            Some(_place) => attend(&self.daemon, socket, peer),
            None => {
                let _ = packet::set_timeout(socket, Some(Duration::from_millis(100)));
                let reason = "ternd serves too many requests at once".into();
                let hint = Some("try again".into());
                respond(socket, &Answer::Failed { reason, hint, errno: libc::EAGAIN });
            }
        }
    }
}

fn attend(daemon: &Arc<Daemon>, socket: &OwnedFd, peer: Peer) {
    if packet::set_timeout(socket, Some(CLIENT_WITHIN)).is_err() {
        return;
    }
    let mut buffer = vec![0; REQUEST_BYTES];
    let Ok(FromSender { bytes, sender, descriptors }) = packet::receive_from(socket, &mut buffer, 0) else { return };
    if bytes == 0 {
        return;
    }
    let request = match caller::check_sender(sender.as_ref(), peer) {
        Ok(()) => decode::<Request>(&buffer[..bytes]).map_err(Error::from),
        Err(e) => Err(e.into()),
    };
    let answer = match (request, sender) {
        (Ok(Request::Run { on, movable, any_cpu, as_root, force, homecoming, kind }), Some(sender)) => {
            let wish = Wish { on: on.as_deref(), movable, any_cpu, as_root, force, homecoming, kind };
            match place(daemon, socket, sender, &descriptors, &wish) {
                // The steward speaks on this socket from now on.
                Ok(Going::There) => return,
                Ok(Going::Here) => Ok(Answer::Here),
                Err(e) => Err(e),
            }
        }
        (Ok(request), _) => answers::answer(daemon, peer, socket.as_fd(), request),
        (Err(e), _) => Err(e),
    };
    let answer = answer.unwrap_or_else(|e| {
        tracing::info!(uid = peer.uid, "refused: {}", e.chain());
        Answer::Failed { reason: e.chain(), hint: e.hint(), errno: e.errno() }
    });
    respond(socket, &answer);
    if answer == Answer::Done {
        leave::after_done(daemon);
    }
}

fn respond(socket: &OwnedFd, answer: &Answer) {
    let Ok(bytes) = encode(answer, ANSWER_BYTES) else { return };
    for packet in packets(&bytes) {
        // A client that has gone needs no answer.
        if packet::send(socket, &packet, &[]).is_err() {
            return;
        }
    }
}

/// A program that a room did not take is handed to others so often.
const MORE_TRIES: usize = 2;

/// How a program is to be placed.
struct Wish<'a> {
    /// On this node.
    on: Option<&'a str>,
    /// The policy may move it on, though the node is named.
    movable: bool,
    /// The node's CPU may lack what this one's has.
    any_cpu: bool,
    /// Root accepts that the node gets root's rights.
    as_root: bool,
    /// Also where memory is short.
    force: bool,
    /// What becomes of processes that must go home.
    homecoming: Homecoming,
    /// The kind of the room.
    kind: RoomKind,
}

/// Where a program goes.
enum Going {
    /// The caller executes it itself.
    Here,
    /// A steward has the caller.
    There,
}

/// What `--on` calls this node, beside its name.
const HOME: &str = "home";

/// Finds the nodes that may host the caller's program. A caller in a sandbox is refused.
fn hosts_of(daemon: &Daemon, caller: &ProvenCaller, wish: &Wish<'_>) -> Result<Hosts, Error> {
    let pid = caller.pid();
    os::confinement::check(pid).map_err(|confinement| Error::Confined { pid, confinement })?;
    root_trust::check_asker(caller.named().uid, wish.as_root)?;
    Hosts::of(daemon, pid, wish.as_root)
}

/// Hands the client and its program to the steward of the chosen node.
fn place(
    daemon: &Arc<Daemon>,
    socket: &OwnedFd,
    sender: Sender,
    descriptors: &[OwnedFd],
    wish: &Wish<'_>,
) -> Result<Going, Error> {
    let [program] = descriptors else {
        return Err(control_protocol::codec::CodecError::Malformed {
            why: "a program's descriptor must come with the request".into(),
        }
        .into());
    };
    let stays = |why| Error::StaysHome { why };
    client::check_program(program).map_err(stays)?;
    let caller = ProvenCaller::prove(sender)?;
    let note = || {
        if wish.on.is_none() || wish.movable {
            daemon.balance.placed.add(caller.pid());
        }
    };
    if wish.on.is_some_and(|on| on == HOME || on == daemon.me().name) {
        note();
        return Ok(Going::Here);
    }
    let hosts = hosts_of(daemon, &caller, wish)?;
    // The deputy lives on this socket: the timeouts were the daemon's.
    packet::set_timeout(socket, None).map_err(|e| Error::socket("prepare the deputy's socket", e))?;
    let _kept = wish.on.map(|on| reserve::keep_for_program(daemon, caller.pid(), on, wish.force)).transpose()?;
    let home_devices = wish.kind == RoomKind::Home && daemon.policy.settings().shows_home_devices();
    let handed = |steward: &steward::Steward| {
        steward.place(&caller, socket.as_fd(), program.as_fd(), wish.homecoming, home_devices)
    };
    let mut failed: Vec<Failed> = Vec::new();
    loop {
        let owner = caller.named().uid;
        let chosen = match wish.on {
            // Asked again, it may have a new room.
            Some(on) => {
                choice::named(daemon, owner, &Target { name: on, any_cpu: wish.any_cpu, kind: wish.kind }, &hosts)
                    .map(|(node, steward)| Chosen::There(node, steward))
            }
            None => choice::best(daemon, owner, &hosts, &failed),
        }?;
        let Chosen::There(node, steward) = chosen else {
            note();
            return Ok(Going::Here);
        };
        match handed(&steward) {
            Ok(Placed::There) => {
                let (by, decision_ms) = (By::User(owner), steward.decision_ms);
                daemon.books.note(owner, &node, Used { placed: 1, ..Used::default() });
                history::note(daemon, caller.pid(), Happening::Placed { node, by, decision_ms });
                note();
                return Ok(Going::There);
            }
            Ok(Placed::Unknown) => {
                tracing::warn!("the room on {node} ended while a program was handed to it");
                return Ok(Going::There);
            }
            Ok(Placed::Not(why)) if failed.len() < MORE_TRIES => {
                tracing::info!("process {} is not placed on {node} ({why}): tried again", caller.pid());
                failed.push(Failed { node, why });
            }
            Ok(Placed::Not(why)) | Err(why) => return Err(Error::Room { node, why }),
        }
    }
}
