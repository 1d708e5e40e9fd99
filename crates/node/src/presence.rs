//! Whether somebody is at this machine, and so whether it takes guests. One thread watches input
//! while the owner has set `accept=idle`; the rules are [`::policy::Presence`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::policy::{Accept, Availability, Readings};
use control_protocol::facts::Load;
use control_protocol::tool::PresenceWord;
use os::input::Input;
use os::share::Share;

use crate::daemon::Daemon;
use crate::locks::lock;
use crate::{clearing, guests};

/// The machine's own work is measured so often. While somebody is at the machine, input is also
/// looked at only so often: a mouse that moves costs nothing more.
const EVERY: Duration = Duration::from_secs(1);

impl Daemon {
    /// Tells whether this node takes guests now, and why not.
    pub(crate) fn availability(&self) -> Availability {
        let settings = self.policy.settings();
        if self.departure.is_under_way() || self.suspending.is_under_way() || lock(&self.drains.now).is_some() {
            return Availability::Draining;
        }
        let allowed = settings.guests && settings.accept.allows(os::local_time::minute_of_day());
        if !allowed || settings.quiet || self.options.rooms_max == 0 {
            return Availability::Closed;
        }
        match settings.accept {
            // A daemon that has just begun sends no guest away.
            Accept::Idle => {
                let known = *lock(&self.presence);
                known.map_or(Availability::Closed, |known| known.judge(&self.readings(0)))
            }
            _ => Availability::Open,
        }
    }

    /// Tells whether guests that are here must leave.
    pub(crate) fn sends_guests_away(&self) -> bool {
        let settings = self.policy.settings();
        let allowed = settings.guests && settings.accept.allows(os::local_time::minute_of_day());
        !allowed || self.availability() == Availability::InUse
    }

    /// Fills in what others are told of this node's availability.
    pub(crate) fn with_availability(&self, load: Load) -> Load {
        let availability = self.availability();
        let known = *lock(&self.presence);
        let unused_ms = || known.map_or(0, |known| known.unused_ms(self.now_ms()));
        let unused_s = match availability {
            Availability::Idle | Availability::Busy => u32::try_from(unused_ms() / 1000).unwrap_or(u32::MAX),
            _ => 0,
        };
        let rooms_max = if availability.takes_guests() { self.options.rooms_max } else { 0 };
        Load { availability, unused_s, rooms_max, ..load }
    }

    /// Notes what a person says about being here.
    pub(crate) fn note_presence(self: &Arc<Self>, word: PresenceWord) {
        let now_ms = self.now_ms();
        let mut known = lock(&self.presence);
        let presence = known.get_or_insert_with(|| ::policy::Presence::new(now_ms));
        match word {
            PresenceWord::Back { for_s } => presence.back(now_ms, i64::from(for_s) * 1000),
            PresenceWord::Away => presence.away(now_ms),
        }
        drop(known);
        self.availability_may_have_changed();
    }

    /// Tells other nodes, and has guests sent away if they must leave.
    fn availability_may_have_changed(self: &Arc<Self>) {
        if matches!(self.availability(), Availability::InUse | Availability::Draining | Availability::Closed) {
            lock(&self.grants).clear();
        }
        if self.availability() == Availability::InUse {
            clearing::start(self);
        } else if self.sends_guests_away() {
            self.evictions.due.notify_one();
        }
        self.swim.news();
    }

    /// Begins with the last input on a terminal. Where none is known, nobody is taken to be here.
    fn begin_presence(&self, last: Option<SystemTime>) {
        let age_ms = last
            .and_then(|last| SystemTime::now().duration_since(last).ok())
            .map_or(self.policy.params().idle_after_ms.into(), |age| self.policy_ms(age));
        let input_ms = self.now_ms().saturating_sub_unsigned(age_ms);
        let mut known = lock(&self.presence);
        known.get_or_insert_with(|| ::policy::Presence::new(input_ms)).input(input_ms);
    }

    fn readings(&self, own_milli: u32) -> Readings {
        let cores_milli = self.meter.load().capacity_milli.max(1000);
        let idle_after_ms = self.policy.params().idle_after_ms;
        Readings { now_ms: self.now_ms(), own_milli, cores_milli, idle_after_ms }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.uptime_ms()).unwrap_or(i64::MAX)
    }
}

/// Starts the thread.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    let work = move || {
        let mut watch = Watch { share: Share::find(), input: None, told: daemon.availability(), daemon };
        loop {
            watch.step();
        }
    };
    std::thread::Builder::new().name("presence".into()).stack_size(256 << 10).spawn(work).map(drop)
}

struct Watch {
    daemon: Arc<Daemon>,
    share: Share,
    /// The devices, while the owner wants them to be watched.
    input: Option<Input>,
    /// The presence that others were told last.
    told: Availability,
}

impl Watch {
    /// Waits for input, or for the next look at this machine's own work.
    fn step(&mut self) {
        if self.daemon.policy.settings().accept == Accept::Idle {
            self.look();
        } else {
            self.input = None;
            std::thread::sleep(EVERY);
        }
        let availability = self.daemon.availability();
        if std::mem::replace(&mut self.told, availability) != availability {
            tracing::info!("this node is {availability:?} for guests");
            self.daemon.availability_may_have_changed();
        }
    }

    fn look(&mut self) {
        let input = self.input.get_or_insert_with(|| {
            let input = Input::open();
            self.daemon.begin_presence(input.last_of_terminals());
            input
        });
        let is_used = self.told == Availability::InUse;
        if is_used {
            std::thread::sleep(EVERY);
        }
        if input.wait(if is_used { Duration::ZERO } else { EVERY }) {
            lock(&self.daemon.presence).iter_mut().for_each(|known| _ = known.input(self.daemon.now_ms()));
        } else if self.told != Availability::InUse {
            let readings = self.daemon.readings(self.own_milli());
            lock(&self.daemon.presence).iter_mut().for_each(|known| known.sample(&readings));
        }
    }

    /// The runnable processes of this machine's own, thousandths.
    fn own_milli(&self) -> u32 {
        let all = self.share.runnable();
        let guests = guests::list(&self.daemon).iter().filter(|guest| guest.state == 'R').count();
        all.saturating_sub(u32::try_from(guests).unwrap_or(u32::MAX)).saturating_mul(1000)
    }
}
