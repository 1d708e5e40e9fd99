//! Whether processes of other homes, and of users, may come here: promises that the policy keeps.

use ::policy::{Ask, NodeView, Refusal, Reservation};

use crate::daemon::Daemon;
use crate::load;
use crate::locks::lock;

/// How long a promise to take a process holds, if nobody says what came of it, milliseconds.
const PROMISE_MS: u64 = 30_000;

/// Another node asks whether its process may come.
pub(crate) fn admit(daemon: &Daemon, name: &str, from: u64, ask: &Ask) -> Result<(), Refusal> {
    if daemon.evictions.is_unwanted(name, ask.process.id) {
        return Err(Refusal::NoGuests);
    }
    let own = daemon.own_view();
    let mut mover = lock(&daemon.balance.guests);
    mover.set(daemon.policy.settings());
    // Promises are kept by who asks and the process, whatever the request says of its source.
    let ask = Ask { from: NodeView { id: from, ..ask.from }, ..ask.clone() };
    mover.admit(daemon.uptime_ms(), own, &ask, PROMISE_MS)
}

/// A user of another node, or of this one, wants a process to come. Refused with how much memory
/// can be given, MiB.
pub(crate) fn reserve(daemon: &Daemon, wanted: Reservation) -> Result<(), u32> {
    // Another process may have taken the memory that was measured a second ago.
    let own = daemon.own_view();
    let own = NodeView { free_mib: own.free_mib.min(load::available_mib()), ..own };
    let mut mover = lock(&daemon.balance.guests);
    mover.set(daemon.policy.settings());
    mover.reserve(daemon.uptime_ms(), own, wanted, PROMISE_MS)
}

/// What that node asked for has come, or will not.
pub(crate) fn settle(daemon: &Daemon, from: u64, process: u64, has_come: bool) {
    let demand_milli = lock(&daemon.balance.guests).settle(daemon.uptime_ms(), from, process, has_come);
    if let Some(demand_milli) = demand_milli {
        daemon.meter.has_come(demand_milli);
    }
}
