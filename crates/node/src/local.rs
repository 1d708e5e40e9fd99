//! The control socket: one thread a request, blocking, bounded. The kernel says who asks.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ctl::codec::{decode, encode};
use ctl::steward::ToSteward;
use ctl::tool::{ANSWER_BYTES, Answer, REQUEST_BYTES, Request, packets};
use packet::Peer;

use crate::daemon::{Daemon, lock};
use crate::{Error, answers, rooms};

/// Bound on receiving a request and sending an answer.
const CLIENT_WITHIN: Duration = Duration::from_secs(5);
/// Requests served at once, in all and for one user.
const SERVED_MAX: usize = 512;
const SERVED_PER_USER_MAX: usize = 128;

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

/// Serves until the process ends.
pub(crate) fn run(daemon: &Arc<Daemon>, listener: &OwnedFd) {
    let served = Arc::new(Served::default());
    loop {
        let accepted = packet::accept(listener).and_then(|socket| packet::peer(&socket).map(|peer| (socket, peer)));
        let (socket, peer) = match accepted {
            Ok(client) => client,
            Err(e) => {
                tracing::warn!("control socket: {e}");
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        let Some(place) = served.take(peer.uid) else {
            let _ = packet::set_timeout(&socket, Some(Duration::from_millis(100)));
            respond(
                &socket,
                &Answer::Failed {
                    reason: "ternd serves too many requests at once".into(),
                    hint: Some("try again".into()),
                },
            );
            continue;
        };
        let daemon = Arc::clone(daemon);
        let spawned = std::thread::Builder::new().name("request".into()).stack_size(256 << 10).spawn(move || {
            client(&daemon, &socket, peer);
            drop(place);
        });
        if let Err(e) = spawned {
            tracing::warn!("no thread for a request: {e}");
        }
    }
}

fn client(daemon: &Arc<Daemon>, socket: &OwnedFd, peer: Peer) {
    if packet::set_timeout(socket, Some(CLIENT_WITHIN)).is_err() {
        return;
    }
    let Ok(packet) = packet::receive(socket, REQUEST_BYTES) else { return };
    if packet.bytes.is_empty() {
        return;
    }
    let answer = match decode::<Request>(&packet.bytes) {
        Ok(Request::Run { on }) => place(daemon, socket, &packet.descriptors, on.as_deref()),
        Ok(request) => answers::answer(daemon, peer, request),
        Err(e) => Err(e.into()),
    };
    let answer = answer.unwrap_or_else(|e| {
        tracing::info!(uid = peer.uid, "refused: {}", e.chain());
        Answer::Failed { reason: e.chain(), hint: e.hint() }
    });
    respond(socket, &answer);
    if answer == Answer::Done {
        answers::after_done(daemon);
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

/// Hands the client and its program to the steward of the chosen node.
fn place(daemon: &Arc<Daemon>, socket: &OwnedFd, descriptors: &[OwnedFd], on: Option<&str>) -> Result<Answer, Error> {
    let [program] = descriptors else {
        return Err(ctl::codec::CodecError::Malformed {
            why: "a program's descriptor must come with the request".into(),
        }
        .into());
    };
    let (node, steward) = rooms::choose(daemon, on)?;
    // The deputy lives on this socket: the timeouts were the daemon's.
    packet::set_timeout(socket, None).map_err(|e| Error::socket("prepare the deputy's socket", e))?;
    match steward.order(&ToSteward::Place, &[socket.as_fd(), program.as_fd()]) {
        Ok(()) => Ok(Answer::Placing { node }),
        Err(why) => Err(Error::Room { node, why }),
    }
}
