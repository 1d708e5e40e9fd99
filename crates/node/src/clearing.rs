//! Emptying this node because somebody is at it: all guests stand still first, and then leave. What
//! became of each is written to the log of evictions.
//!
//! To stop a guest for its move, its home must ask its room to, which takes two ways over the
//! network. So the rooms' control group is frozen meanwhile (`os::cgroup::Group::freeze`), and
//! thawed when the homes have asked: a request to stop that has come holds before the guest's next
//! instruction. A home that does not answer keeps nobody frozen for long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use control_protocol::evictions::{Eviction, SentGuest};
use control_protocol::guests::{HostedGuest, LeaveReason, Leaving};
use control_protocol::paths::ROOMS_GROUP;
use os::cgroup::Group;

use crate::daemon::Daemon;
use crate::evict::{Answered, Asking, ask_homes};
use crate::{evictions, guests, history};

/// Guests are frozen at most for so long.
const FROZEN_MAX: Duration = Duration::from_millis(300);
/// From a home's answer until its request to stop a guest has come here.
const STOPS_WITHIN: Duration = Duration::from_millis(25);
/// Homes are asked how far their guests are so often.
const ASKED_EVERY: Duration = Duration::from_millis(250);
/// So often homes are asked where the guests went.
const ASKED_AFTERWARDS_MAX: u32 = 8;
/// Guests are looked at so often at first, and later.
const LOOKED_EVERY: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(50)];
/// From then on that is later.
const SOON: Duration = Duration::from_secs(1);
/// Guests of which nothing is heard are not watched for longer.
const WATCHED_MAX: Duration = Duration::from_secs(600);

/// Guests that are on their way.
struct Clearing {
    reason: LeaveReason,
    at_ms: u64,
    begun: Instant,
    frozen_us: Option<u64>,
    guests: BTreeMap<(String, i32), SentGuest>,
}

/// Sends all guests away, because somebody is at the machine. Does nothing if that is under way.
pub(crate) fn start(daemon: &Arc<Daemon>) {
    if daemon.evictions.clearing.swap(true, Ordering::AcqRel) {
        return;
    }
    let clearing = Arc::clone(daemon);
    let work = move || {
        clear(&clearing);
        clearing.evictions.clearing.store(false, Ordering::Release);
    };
    if let Err(e) = std::thread::Builder::new().name("clearing".into()).stack_size(512 << 10).spawn(work) {
        tracing::warn!("no thread to send guests away: {e}");
        daemon.evictions.clearing.store(false, Ordering::Release);
        daemon.evictions.due.notify_one();
    }
}

/// Thaws guests that a daemon that died has left frozen.
pub(crate) fn thaw() {
    if let Ok(rooms) = Group::open(ROOMS_GROUP) {
        rooms.thaw();
    }
}

fn clear(daemon: &Arc<Daemon>) {
    let mut clearing = Clearing {
        reason: LeaveReason::InUse,
        at_ms: history::now_ms(),
        begun: Instant::now(),
        frozen_us: None,
        guests: BTreeMap::new(),
    };
    if crate::hosted::count(&daemon.options.run_dir) == 0 {
        return;
    }
    let frozen = Group::open(ROOMS_GROUP).and_then(|rooms| rooms.freeze());
    clearing.frozen_us = frozen.is_ok().then(|| clearing.elapsed(Duration::as_micros));
    if let Err(e) = &frozen {
        tracing::info!("guests run on until they leave: {e}");
    }
    clearing.see(&guests::list(daemon));
    let asked = ask_homes(daemon, clearing.asking(true));
    let asked = async { tokio::time::timeout(FROZEN_MAX, asked).await };
    if let Ok(answers) = daemon.runtime.block_on(asked) {
        std::thread::sleep(STOPS_WITHIN);
        drop(frozen);
        clearing.hear(&answers);
    } else {
        drop(frozen);
    }
    clearing.watch(daemon);
    clearing.write(daemon);
}

impl Clearing {
    fn elapsed(&self, unit: fn(&Duration) -> u128) -> u64 {
        u64::try_from(unit(&self.begun.elapsed())).unwrap_or(u64::MAX)
    }

    /// Takes over who is here. Gives how many are left of those that are to leave.
    fn see(&mut self, here: &[HostedGuest]) -> usize {
        let gone_ms = self.elapsed(Duration::as_millis);
        for guest in here {
            self.guests.entry((guest.home.clone(), guest.home_pid)).or_insert_with(|| SentGuest {
                home: guest.home.clone(),
                pid: guest.home_pid,
                command: guest.command.clone(),
                to: None,
                gone_ms: None,
                stays: None,
            });
        }
        let is_here = |key: &(String, i32)| here.iter().any(|guest| (&guest.home, guest.home_pid) == (&key.0, key.1));
        for (_, guest) in self.guests.iter_mut().filter(|(key, guest)| guest.gone_ms.is_none() && !is_here(key)) {
            (guest.gone_ms, guest.stays) = (Some(gone_ms), None);
        }
        self.guests.values().filter(|guest| guest.gone_ms.is_none()).count()
    }

    fn asking(&self, again: bool) -> Asking {
        let mut of_homes: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for guest in self.guests.values().filter(|guest| guest.to.is_none()) {
            of_homes.entry(guest.home.clone()).or_default().push(guest.pid);
        }
        Asking { of_homes, again, reason: self.reason }
    }

    /// Takes over what homes say. Gives whether all that are here stay.
    fn hear(&mut self, answers: &std::collections::HashMap<String, Answered>) -> bool {
        for guest in self.guests.values_mut() {
            let said = answers.get(&guest.home).map(|answered| answered.as_ref().map(|taken| (guest.pid, taken)));
            match said {
                Some(Ok((pid, taken))) => {
                    let Some(said) = taken.iter().find(|said| said.pid == pid) else { continue };
                    guest.to = said.to.clone().or(guest.to.take());
                    guest.stays = match &said.leaving {
                        Some(Leaving::Stays { why }) if guest.gone_ms.is_none() => Some(why.clone()),
                        _ => None,
                    };
                }
                Some(Err(why)) if guest.gone_ms.is_none() => {
                    guest.stays = Some(format!("its home does not take it back: {why}"));
                }
                _ => {}
            }
        }
        self.guests.values().all(|guest| guest.gone_ms.is_some() || guest.stays.is_some())
    }

    /// Watches the guests until all have gone, or stay.
    fn watch(&mut self, daemon: &Arc<Daemon>) {
        let mut asked = Instant::now();
        while self.see(&guests::list(daemon)) > 0 && self.begun.elapsed() < WATCHED_MAX {
            if asked.elapsed() > ASKED_EVERY {
                asked = Instant::now();
                let answers = daemon.runtime.block_on(ask_homes(daemon, self.asking(false)));
                if self.hear(&answers) {
                    break;
                }
            }
            std::thread::sleep(LOOKED_EVERY[usize::from(self.begun.elapsed() > SOON)]);
        }
        // A process has gone from here before its home knows that it has come where it goes.
        for _ in 0..ASKED_AFTERWARDS_MAX {
            let asking = self.asking(false);
            if asking.of_homes.is_empty() {
                return;
            }
            self.hear(&daemon.runtime.block_on(ask_homes(daemon, asking)));
            std::thread::sleep(ASKED_EVERY);
        }
    }

    fn write(self, daemon: &Daemon) {
        if self.guests.is_empty() {
            return;
        }
        let Clearing { reason, at_ms, frozen_us, guests, .. } = self;
        let sent = Eviction::Sent { at_ms, reason, frozen_us, guests: guests.into_values().collect() };
        sent.words().iter().for_each(|words| tracing::info!("{words}"));
        evictions::log(&daemon.options.run_dir, &sent);
    }
}
