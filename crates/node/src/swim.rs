//! Membership and failure detection: foca (SWIM) over sealed datagrams. One task owns the UDP
//! socket, the protocol and its timers.

pub(crate) mod commands;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::SocketAddr;
use std::num::{NonZeroU8, NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::peer::{Datagram, Member};
use foca::{AccumulatingRuntime, Config, Foca, PeriodicParams, PostcardCodec, Timer};
use gossip::{Draw, Partner, Partners};
use identity::NodeName;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

use self::commands::Command;
use crate::daemon::Daemon;
use crate::seal::{OVERHEAD_BYTES, Opener, Sealer};

/// Largest datagram, bytes: fits an Ethernet frame with room for tunnels.
const DATAGRAM_BYTES: usize = 1380;
/// What the envelope ([`Datagram::Swim`], version) adds, bytes.
const ENVELOPE_BYTES: usize = 8;
/// Loads in one pulse: with them it stays below a kilobyte.
const PULSE_ENTRIES: usize = 24;
/// How often a pulse is sent, ...
const PULSE_EVERY: Duration = Duration::from_secs(1);
/// ... and how often for how long after the start, when the others are still to be heard of.
const EAGER_PULSE_EVERY: Duration = Duration::from_millis(100);
const EAGER_FOR: Duration = Duration::from_secs(4);
/// How often news of members is sent as long as there is any: at rest nobody wakes up for it.
const GOSSIP_EVERY: Duration = Duration::from_millis(100);
/// As long as members change, gossip is at work.
const QUIET: Duration = Duration::from_millis(150);
/// The shortest time between two questions for a member's list, in a small cluster.
const LIST_EVERY: Duration = Duration::from_millis(250);
/// Datagrams taken before timers get their turn again.
const BURST: usize = 64;

/// A member as foca sees it: one address (node id), the newest generation wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SwimId(Member);

impl foca::Identity for SwimId {
    type Addr = u64;

    fn renew(&self) -> Option<Self> {
        Some(SwimId(Member { generation: self.0.generation + 1, ..self.0.clone() }))
    }

    fn addr(&self) -> u64 {
        self.0.id
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.0.generation > adversary.0.generation
    }
}

struct Due {
    at: Instant,
    number: u64,
    timer: Timer<SwimId>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

pub(crate) struct Task {
    daemon: Arc<Daemon>,
    socket: UdpSocket,
    foca: Foca<SwimId, PostcardCodec, StdRng, foca::NoCustomBroadcast>,
    runtime: AccumulatingRuntime<SwimId>,
    timers: BinaryHeap<Reverse<Due>>,
    timers_made: u64,
    /// When news of members is sent next, if there is any.
    gossip: Option<Instant>,
    sealer: Sealer,
    opener: Opener,
    echoes: HashMap<u64, oneshot::Sender<()>>,
    draw: Draw,
    partners: Partners,
    sized_for: usize,
    /// Of the members alive, this node included.
    digest: u64,
    /// They have changed, which is still to be taken over.
    changes: bool,
    /// When they last changed.
    changed: Instant,
    /// When a member's list was last asked for.
    listed: Instant,
}

impl Task {
    pub(crate) fn new(daemon: Arc<Daemon>, socket: UdpSocket) -> Option<Task> {
        let (me, secret) = (daemon.me(), *daemon.identity.gossip_key());
        let rng = || rand::make_rng::<StdRng>();
        Some(Task {
            sealer: Sealer::new(&secret, me.id, me.generation)?,
            opener: Opener::new(secret, me.id),
            foca: Foca::new(SwimId(me.clone()), config(1), rng(), PostcardCodec),
            daemon,
            socket,
            runtime: AccumulatingRuntime::new(),
            timers: BinaryHeap::new(),
            timers_made: 0,
            gossip: None,
            echoes: HashMap::new(),
            draw: Draw::new(rand::random()),
            partners: Partners::default(),
            sized_for: 1,
            digest: control_protocol::peer::digest([&me].into_iter()),
            changes: false,
            changed: Instant::now(),
            listed: Instant::now(),
        })
    }

    /// Runs until the daemon ends.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut buffer = vec![0; 2048];
        let start = Instant::now();
        let mut pulse = start;
        loop {
            let timer = self.timers.peek().map(|Reverse(due)| due.at);
            let next = timer.into_iter().chain(self.gossip).fold(pulse, Instant::min);
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    if let Ok((bytes, from)) = received {
                        self.datagram(&buffer[..bytes], from);
                        self.burst(&mut buffer);
                    }
                }
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return,
                },
                () = tokio::time::sleep_until(next.into()) => {
                    self.due();
                    if pulse <= Instant::now() {
                        self.pulse();
                        let every = if start.elapsed() < EAGER_FOR { EAGER_PULSE_EVERY } else { PULSE_EVERY };
                        pulse = Instant::now() + every.min(self.daemon.paced(PULSE_EVERY));
                    }
                }
            }
            self.drain();
            self.take_over();
        }
    }

    fn burst(&mut self, buffer: &mut [u8]) {
        for _ in 0..BURST {
            let Ok((bytes, from)) = self.socket.try_recv_from(buffer) else { return };
            self.datagram(&buffer[..bytes], from);
            self.drain();
        }
    }

    fn datagram(&mut self, bytes: &[u8], from: SocketAddr) {
        let Some((sender, plain)) = self.opener.open(bytes) else {
            return self.daemon.count_refused_datagram();
        };
        let Ok(datagram) = control_protocol::codec::decode::<Datagram>(&plain) else {
            return self.daemon.count_refused_datagram();
        };
        match datagram {
            Datagram::Swim(data) => {
                if let Err(e) = self.foca.handle_data(&data, &mut self.runtime) {
                    tracing::debug!(sender, %from, "membership datagram refused: {e}");
                }
            }
            Datagram::Pulse { me, digest, entries } => {
                let now = Instant::now();
                let told = entries.iter().take(PULSE_ENTRIES);
                told.for_each(|e| self.daemon.table().note_load(sender, e, now));
                self.partners.heard(sender);
                if me.id == sender && acceptable(&me) {
                    self.compare(me, digest);
                }
            }
            Datagram::Echo { nonce } => self.send(from, &Datagram::EchoReply { nonce }),
            Datagram::EchoReply { nonce } => {
                if let Some(done) = self.echoes.remove(&nonce) {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Gossip loses a member now and then; who sees others than its peer does, though it has heard
    /// of no change for a moment, asks for the peer's list.
    fn compare(&mut self, sender: Member, digest: u64) {
        if digest == self.digest || self.changed.elapsed() < QUIET || self.listed.elapsed() < self.list_every() {
            return;
        }
        self.listed = Instant::now();
        let daemon = Arc::clone(&self.daemon);
        tokio::spawn(async move { crate::dial::compare_members(&daemon, &sender).await });
    }

    /// A list costs both sides in proportion to the members.
    fn list_every(&self) -> Duration {
        LIST_EVERY * u32::try_from(1 + self.sized_for / 32).unwrap_or(u32::MAX)
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Alive(members) => {
                let alive: Vec<SwimId> = members.into_iter().filter(acceptable).map(SwimId).collect();
                let news: Vec<_> = alive.iter().cloned().map(foca::Member::alive).collect();
                let result = self
                    .foca
                    .apply_many(news.into_iter(), true, &mut self.runtime)
                    .and_then(|()| self.foca.gossip(&mut self.runtime))
                    .and_then(|()| self.wake_the_dead(alive));
                if let Err(e) = result {
                    tracing::warn!("membership list not applied: {e}");
                }
            }
            Command::Gone(id) => {
                let gone = self.foca.iter_members().find(|m| m.id().0.id == id).cloned();
                if let Some(member) = gone {
                    let down = foca::Member::new(member.id().clone(), member.incarnation(), foca::State::Down);
                    let _ = self.foca.apply_many(std::iter::once(down), true, &mut self.runtime);
                }
                self.partners.forget(id);
                if self.daemon.table().forget(id) {
                    self.daemon.members_have_changed();
                    self.daemon.save_members_soon();
                }
            }
            Command::Leave(done) => {
                let _ = self.foca.leave_cluster(&mut self.runtime);
                self.drain();
                let _ = done.send(());
            }
            Command::News => self.tell_homes(),
            Command::Echo { address, done } => {
                self.echoes.retain(|_, waiting| !waiting.is_closed());
                let nonce = rand::random();
                self.echoes.insert(nonce, done);
                self.send(address, &Datagram::Echo { nonce });
            }
        }
    }

    /// Who is held to be down stays down until it takes a new identity, which it does when it is
    /// told. Two nodes that each hold the other to be down, and know nobody else, would never tell:
    /// SWIM probes the living alone. So who is known to be back is spoken to.
    fn wake_the_dead(&mut self, alive: Vec<SwimId>) -> Result<(), foca::Error> {
        let living: HashSet<u64> = self.foca.iter_members().map(|m| m.id().0.id).collect();
        let me = self.foca.identity().0.id;
        let mut down = alive.into_iter().filter(|id| id.0.id != me && !living.contains(&id.0.id));
        down.try_for_each(|id| self.foca.announce(id, &mut self.runtime))
    }

    fn due(&mut self) {
        let now = Instant::now();
        while let Some(Reverse(due)) = self.timers.peek()
            && due.at <= now
        {
            let Some(Reverse(due)) = self.timers.pop() else { return };
            if let Err(e) = self.foca.handle_timer(due.timer, &mut self.runtime) {
                tracing::debug!("membership timer: {e}");
            }
        }
        if self.gossip.is_some_and(|at| at <= now) {
            self.gossip = None;
            if let Err(e) = self.foca.gossip(&mut self.runtime) {
                tracing::debug!("membership gossip: {e}");
            }
        }
    }

    /// Does what foca wants done: send, schedule, and take over who is alive.
    fn drain(&mut self) {
        while let Some((to, data)) = self.runtime.to_send() {
            self.send(to.0.address, &Datagram::Swim(data.to_vec()));
        }
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.timers_made += 1;
            self.timers.push(Reverse(Due { at: Instant::now() + after, number: self.timers_made, timer }));
        }
        while let Some(notification) = self.runtime.to_notify() {
            tracing::debug!("membership: {notification:?}");
            self.changes = true;
        }
        if self.gossip.is_none() && self.foca.updates_backlog() > 0 && self.foca.num_members() > 0 {
            self.gossip = Some(Instant::now() + GOSSIP_EVERY);
        }
    }

    /// Takes over who is alive, if that has changed since the last time.
    fn take_over(&mut self) {
        if !std::mem::take(&mut self.changes) {
            return;
        }
        let alive: Vec<Member> = self.foca.iter_members().map(|m| m.id().0.clone()).filter(acceptable).collect();
        let count = alive.len() + 1;
        let me = self.foca.identity().0.clone();
        self.digest = control_protocol::peer::digest(alive.iter().chain([&me]));
        self.changed = Instant::now();
        self.daemon.set_me(me);
        self.daemon.members_alive(alive);
        self.daemon.save_members_soon();
        // Only the bounds that depend on the size, and only when it has changed much.
        if count > self.sized_for * 3 / 2 || count * 2 < self.sized_for {
            self.sized_for = count;
            if let Err(e) = self.foca.set_config(config(count)) {
                tracing::warn!("membership bounds for {count} nodes: {e}");
            }
        }
    }

    /// The newest loads to a random member; the members again if none is alive.
    fn pulse(&mut self) {
        let heard = |task: &Task, id| task.foca.iter_members().find(|m| m.id().0.id == id).map(|m| m.id().0.address);
        let members = self.foca.num_members();
        let target = match self.partners.next(members, &mut self.draw) {
            Some(Partner::Heard(id)) => heard(self, id),
            Some(Partner::Nth(n)) => self.foca.iter_members().nth(n).map(|m| m.id().0.address),
            None => None,
        };
        match target {
            Some(address) => self.pulse_to(address),
            None if members == 0 => crate::dial::enter_again(&self.daemon),
            // One that was heard is no member any more; another takes its turn next time.
            None => {}
        }
    }

    /// The newest loads to the homes of all rooms here, which decide about what runs in them.
    fn tell_homes(&mut self) {
        let homes: HashSet<String> =
            crate::hosted::living(&self.daemon.options.run_dir).into_iter().map(|room| room.tenant.home).collect();
        let members = self.foca.iter_members().map(|m| &m.id().0);
        let homes: Vec<SocketAddr> = members.filter(|m| homes.contains(&m.name)).map(|m| m.address).collect();
        homes.into_iter().for_each(|address| self.pulse_to(address));
    }

    fn pulse_to(&mut self, address: SocketAddr) {
        let entries = self.daemon.pulse_entries(PULSE_ENTRIES);
        self.send(address, &Datagram::Pulse { me: self.foca.identity().0.clone(), digest: self.digest, entries });
    }

    fn send(&mut self, to: SocketAddr, datagram: &Datagram) {
        let sealed = control_protocol::codec::encode(datagram, DATAGRAM_BYTES - OVERHEAD_BYTES)
            .ok()
            .and_then(|plain| self.sealer.seal(&plain));
        match sealed {
            // A full socket buffer loses the datagram: the protocol is made for that.
            Some(bytes) => drop(self.socket.try_send_to(&bytes, to)),
            None => tracing::warn!(%to, "datagram could not be sealed"),
        }
    }
}

/// What comes from others is shown to users: only valid names and usable addresses.
fn acceptable(member: &Member) -> bool {
    NodeName::new(member.name.as_str()).is_ok() && member.address.port() != 0 && !member.address.ip().is_unspecified()
}

/// Bounds for a cluster of `nodes`. A dead node is probed within about a second by someone,
/// suspected a second later, and declared down after the suspicion time, which leaves a busy node
/// time to object.
fn config(nodes: usize) -> Config {
    let size = u32::try_from(nodes).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    let lan = Config::new_lan(size);
    let some = |n| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN);
    Config {
        probe_period: Duration::from_secs(1),
        probe_rtt: Duration::from_millis(400),
        num_indirect_probes: some(3),
        max_transmissions: lan.max_transmissions.max(NonZeroU8::new(4).unwrap_or(NonZeroU8::MIN)),
        suspect_to_down_after: Duration::from_millis(if nodes <= 32 { 2000 } else { 3000 }),
        remove_down_after: Some(Duration::from_secs(3600)),
        max_packet_size: some(DATAGRAM_BYTES - OVERHEAD_BYTES - ENVELOPE_BYTES),
        notify_down_members: true,
        periodic_announce: Some(PeriodicParams { frequency: Duration::from_secs(10), num_members: some(1) }),
        periodic_announce_to_down_members: Some(PeriodicParams {
            frequency: Duration::from_secs(2),
            num_members: some(2),
        }),
        // See `GOSSIP_EVERY`: foca's own timer would go on when there is nothing to say.
        periodic_gossip: None,
    }
}
