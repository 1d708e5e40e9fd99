//! What the daemon's parts share.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use control_protocol::coscheduling::{HostedJob, NodeJob};
use control_protocol::facts::{Facts, Load};
use control_protocol::peer::{MEMBERS_MAX, Member, PulseEntry};
use identity::{Identity, NodeName};
use tokio::sync::Notify;

use crate::balance::ledger::Balance;
use crate::books::Books;
use crate::choices::{self, Choices};
use crate::coscheduled::Coscheduled;
use crate::departure::Departure;
use crate::drain_state::Drains;
use crate::evictions::Evictions;
use crate::job_registry::Jobs;
use crate::load::Meter;
use crate::locks::lock;
use crate::members::{Known, Table};
use crate::node_rights::RightsOnNodes;
use crate::pins::Pins;
use crate::placement::Refusal;
use crate::policy::Policy;
use crate::program_hosts::ProgramHosts;
use crate::recalls::Recalls;
use crate::rooms::registry::Rooms;
use crate::sampling::Samplers;
use crate::suspension::Suspending;
use crate::swim::commands::Swim;
use crate::{Error, facts};

/// Note in the state directory: who was there.
const MEMBERS_NOTE: &str = "members.json";
/// Note: generation of the last start.
const GENERATION_NOTE: &str = "generation";

/// How long after its start a daemon may still not have heard of a member that is alive.
const SETTLE: Duration = Duration::from_secs(2);

/// The shortest time between two writings of the members.
const SAVE_EVERY: Duration = Duration::from_millis(100);

/// Takes a job of another home. Gives nothing if the job is unknown and may not begin.
pub type Coschedule = fn(&Path, &HostedJob) -> Result<Option<NodeJob>, String>;

/// How the daemon is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// State directory: identity.
    pub state: PathBuf,
    /// Directory of sockets and logs.
    pub run_dir: PathBuf,
    /// Where to listen (TCP and UDP); its address is what others are told.
    pub listen: SocketAddr,
    /// The most rooms to host; 0: accept no guests.
    pub rooms_max: u32,
    /// Memory that all hosted rooms together may have, percent of the machine's.
    pub rooms_memory_percent: u64,
    /// Expenses that stewards and wardens must do without (`os::expenses`): names, with commas
    /// between them.
    pub forbidden: String,
    /// At SIGTERM, guests are sent away before the daemon ends, for at most so long.
    pub drain_at_end: Option<Duration>,
    /// Pretend that the wall clock is off by this much, microseconds: lets one machine show what
    /// clock skew does.
    pub clock_offset_us: i64,
    /// The policy, and the gossip of loads, run so many times as fast (1: as shipped): what they
    /// call a millisecond is so much shorter.
    pub pace: u32,
    /// The processes with which a process of this machine would be moved now, because they share
    /// memory, or why it cannot be moved, as far as that is seen while it runs.
    pub leaves_with: fn(i32) -> Result<Vec<i32>, String>,
    /// Probes this machine's kernel, for the tool.
    pub probe: fn() -> Vec<control_protocol::facts::Finding>,
    /// Has this node's agent of coscheduling, with this directory, take a job of another home.
    pub coschedule: Coschedule,
}

pub(crate) struct Daemon {
    pub(crate) options: Options,
    pub(crate) identity: Identity,
    pub(crate) rooms: Rooms,
    pub(crate) choices: Choices,
    pub(crate) meter: Meter,
    pub(crate) policy: Policy,
    pub(crate) pins: Pins,
    pub(crate) jobs: Jobs,
    pub(crate) rights: RightsOnNodes,
    pub(crate) balance: Balance,
    pub(crate) evictions: Evictions,
    pub(crate) recalls: Recalls,
    pub(crate) departure: Departure,
    pub(crate) drains: Drains,
    pub(crate) suspending: Suspending,
    pub(crate) samplers: Samplers,
    pub(crate) coscheduled: Coscheduled,
    /// Promises of this node to programs that hold it.
    pub(crate) grants: Mutex<::policy::Grants>,
    pub(crate) program_hosts: ProgramHosts,
    pub(crate) books: Books,
    /// Presence of the owner; none until this machine is watched.
    pub(crate) presence: Mutex<Option<::policy::Presence>>,
    /// What moves from here to other nodes have taken lately.
    experience: Mutex<migration_plan::Experience>,
    pub(crate) swim: Swim,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) stop: Notify,
    facts: OnceLock<Facts>,
    started: Instant,
    me: Mutex<Member>,
    table: Mutex<Table>,
    members_changed: AtomicBool,
    saving: AtomicBool,
    /// A task looks for the other nodes.
    pub(crate) entering: AtomicBool,
    refused_datagrams: AtomicU64,
}

impl Daemon {
    pub(crate) fn new(
        options: Options,
        identity: Identity,
        swim: Swim,
        runtime: tokio::runtime::Handle,
    ) -> Result<Daemon, Error> {
        let about = identity.about();
        let me = Member {
            name: about.node.to_string(),
            id: about.id.0,
            address: options.listen,
            generation: next_generation(&identity)?,
        };
        let mut table = Table::default();
        for member in read_members(&identity)? {
            if member.id != me.id && NodeName::new(member.name.as_str()).is_ok() {
                table.remember(member, false, Instant::now());
            }
        }
        let policy = Policy::load(&identity, &options.run_dir)?;
        Ok(Daemon {
            policy,
            balance: Balance::load(&options.run_dir),
            experience: Mutex::default(),
            pins: Pins::load(&options.run_dir),
            jobs: Jobs::load(&options.run_dir),
            rights: RightsOnNodes::load(&identity)?,
            evictions: Evictions::default(),
            recalls: Recalls::default(),
            departure: Departure::default(),
            drains: Drains::resumed(&options.run_dir),
            suspending: Suspending::default(),
            samplers: Samplers::default(),
            coscheduled: Coscheduled::default(),
            grants: Mutex::default(),
            program_hosts: ProgramHosts::default(),
            books: Books::load(&identity),
            presence: Mutex::default(),
            facts: OnceLock::new(),
            rooms: Rooms::default(),
            choices: Choices::default(),
            meter: Meter::new(),
            started: Instant::now(),
            me: Mutex::new(me),
            table: Mutex::new(table),
            stop: Notify::new(),
            members_changed: AtomicBool::new(false),
            saving: AtomicBool::new(false),
            entering: AtomicBool::new(false),
            refused_datagrams: AtomicU64::new(0),
            options,
            identity,
            swim,
            runtime,
        })
    }

    /// What this node is; the first call tries the kernel's features and takes some milliseconds.
    pub(crate) fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| facts::read(self.options.rooms_max))
    }

    pub(crate) fn me(&self) -> Member {
        lock(&self.me).clone()
    }

    pub(crate) fn set_me(&self, me: Member) {
        *lock(&self.me) = me;
    }

    /// What moves from here to other nodes take, as the last ones did.
    pub(crate) fn experience(&self) -> migration_plan::Experience {
        lock(&self.experience).clone()
    }

    /// A process that ran here was moved.
    pub(crate) fn has_moved(&self, pid: i32, leg: &control_protocol::moves::HopReport) {
        // Of one that has ended nothing more is forecast.
        let whose = (pid, os::process::began(pid).unwrap_or(0));
        let route = migration_plan::Route { to: &leg.to, how: &leg.how };
        let measured =
            migration_plan::Measured { parts: leg.parts, frozen_bytes: leg.frozen_bytes, freeze_us: leg.freeze_us };
        lock(&self.experience).moved_of(whose, route, measured);
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// A member by name that can be talked to now.
    pub(crate) fn living(&self, name: &str) -> Result<Member, Refusal> {
        let table = self.table();
        match table.by_name(name) {
            Some(Known { alive: true, member, .. }) => Ok(member.clone()),
            Some(Known { suspended: Some(spell), .. }) => {
                Err(Refusal::Suspended { name: name.into(), since_s: spell.since.elapsed().as_secs() })
            }
            Some(known) => Err(Refusal::Down { name: name.into(), since_s: known.since.elapsed().as_secs() }),
            None => {
                let mut names: Vec<String> =
                    table.iter().map(|k| k.member.name.clone()).chain([self.me().name]).collect();
                names.sort();
                names.dedup();
                names.truncate(20);
                Err(Refusal::Unknown { name: name.chars().take(identity::NAME_MAX).collect(), known: names.join(", ") })
            }
        }
    }

    /// As [`living`](Self::living); a daemon that has just started waits a moment until it has
    /// heard of the others.
    pub(crate) fn living_soon(&self, name: &str) -> Result<Member, Refusal> {
        loop {
            match self.living(name) {
                Err(Refusal::Down { .. }) if self.started.elapsed() < SETTLE => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                result => return result,
            }
        }
    }

    /// This daemon has just started, and may not have heard yet of those it knows.
    pub(crate) fn is_settling(&self) -> bool {
        self.started.elapsed() < SETTLE && self.table().iter().next().is_some()
    }

    /// Alive members and this node: what a newcomer is told.
    pub(crate) fn everybody(&self) -> Vec<Member> {
        let mut members: Vec<Member> = self.table().iter().filter(|k| k.alive).map(|k| k.member.clone()).collect();
        members.push(self.me());
        members
    }

    pub(crate) fn members_alive(&self, alive: Vec<Member>) {
        let count = alive.len();
        if self.table().set_alive(alive.into_iter(), Instant::now()) {
            self.members_changed.store(true, Ordering::Relaxed);
            tracing::info!("{} of {} other nodes alive", count, self.table().iter().count());
        }
    }

    /// Takes over what this other member knows: names first, so that loads find their node.
    pub(crate) fn hear_of(&self, teller: u64, members: &[Member], loads: &[PulseEntry]) {
        let (mut table, now) = (self.table(), Instant::now());
        let named = members.iter().filter(|m| NodeName::new(m.name.as_str()).is_ok());
        named.for_each(|m| table.remember(m.clone(), false, now));
        loads.iter().take(MEMBERS_MAX).for_each(|entry| table.note_load(teller, entry, now));
    }

    pub(crate) fn members_have_changed(&self) {
        self.members_changed.store(true, Ordering::Relaxed);
    }

    /// Writes the members down, beside everything else, unless nothing has changed or that is under
    /// way.
    pub(crate) fn save_members_soon(self: &Arc<Self>) {
        if self.members_changed.load(Ordering::Acquire) && !self.saving.swap(true, Ordering::AcqRel) {
            let daemon = Arc::clone(self);
            self.runtime.spawn_blocking(move || {
                while daemon.members_changed.swap(false, Ordering::AcqRel) {
                    daemon.save_members();
                    // A cluster that is just forming changes often.
                    std::thread::sleep(SAVE_EVERY);
                }
                daemon.saving.store(false, Ordering::Release);
                // What changed between the two lines above.
                daemon.save_members_soon();
            });
        }
    }

    pub(crate) fn save_members(&self) {
        let members: Vec<Member> =
            self.table().iter().filter(|k| k.member.address.port() != 0).map(|k| k.member.clone()).collect();
        let saved = serde_json::to_vec(&members).map_err(|e| e.to_string());
        if let Err(e) =
            saved.and_then(|bytes| self.identity.write_note(MEMBERS_NOTE, &bytes).map_err(|e| e.to_string()))
        {
            tracing::warn!("members not saved: {e}");
        }
    }

    /// Own load and the newest others'.
    pub(crate) fn pulse_entries(&self, count: usize) -> Vec<PulseEntry> {
        let mut entries = self.table().newest_loads(count - 1, Instant::now());
        entries.insert(0, PulseEntry { id: self.me().id, age_ms: 0, load: self.load() });
        entries
    }

    /// The most rooms to host as the owner wants it now; 0: no guests.
    pub(crate) fn rooms_max(&self) -> u32 {
        if self.availability().takes_guests() { self.options.rooms_max } else { 0 }
    }

    /// Since the daemon started, the policy's milliseconds.
    pub(crate) fn uptime_ms(&self) -> u64 {
        self.policy_ms(self.started.elapsed())
    }

    /// A time as the policy sees it, milliseconds.
    pub(crate) fn policy_ms(&self, time: Duration) -> u64 {
        u64::try_from((time * self.options.pace.max(1)).as_millis()).unwrap_or(u64::MAX)
    }

    /// How long such a period of the policy's is.
    pub(crate) fn paced(&self, period: Duration) -> Duration {
        period / self.options.pace.max(1)
    }

    pub(crate) fn load(&self) -> Load {
        let rooms = crate::hosted::count(&self.options.run_dir);
        self.with_availability(Load { rooms, ..self.meter.load() })
    }

    /// This node as it judges by itself: what it tells others is higher for a while when something
    /// has ended.
    pub(crate) fn own_view(&self) -> ::policy::NodeView {
        let load = Load { runnable_milli: self.meter.own_milli(), ..self.load() };
        choices::view(self.me().id, &load, 0)
    }

    pub(crate) fn count_refused_datagram(&self) {
        let refused = self.refused_datagrams.fetch_add(1, Ordering::Relaxed) + 1;
        if refused.is_power_of_two() {
            tracing::warn!("{refused} datagrams refused so far: not a member's, damaged, or repeated");
        }
    }

    /// CLOCK_REALTIME, microseconds since 1970, with the pretended offset.
    pub(crate) fn wall_clock_us(&self) -> i64 {
        wall_clock_us() + self.options.clock_offset_us
    }
}

fn wall_clock_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Rises with every start, even if the wall clock was set back.
fn next_generation(identity: &Identity) -> Result<u64, Error> {
    let last = identity
        .read_note(GENERATION_NOTE)?
        .and_then(|b| String::from_utf8(b).ok()?.trim().parse::<u64>().ok())
        .unwrap_or(0);
    let generation = u64::try_from(wall_clock_us()).unwrap_or(0).max(last + 1);
    identity.write_note(GENERATION_NOTE, generation.to_string().as_bytes())?;
    Ok(generation)
}

/// Addresses of the members that the state directory knows.
pub(crate) fn known_addresses(identity: &Identity) -> Result<Vec<SocketAddr>, Error> {
    Ok(read_members(identity)?.into_iter().map(|m| m.address).collect())
}

fn read_members(identity: &Identity) -> Result<Vec<Member>, Error> {
    let Some(bytes) = identity.read_note(MEMBERS_NOTE)? else { return Ok(Vec::new()) };
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|e| {
        tracing::warn!("{MEMBERS_NOTE} is damaged ({e}): starting without it");
        Vec::new()
    }))
}
