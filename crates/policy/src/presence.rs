//! Whether the owner of a machine uses it: what is known of input, and of the owner's own work.
//!
//! A machine is idle, as in Sprite (Douglis and Ousterhout 1991), if it had no input for some time
//! and fewer of its own processes want to run than it has processors. Input ends that at once, and
//! sends guests away. Own work only keeps new guests from coming: nobody waits at the machine, and
//! the scheduler puts guests behind its owner's processes.
//!
//! All times are milliseconds of one clock of the caller's; input may lie before the clock's zero.

use serde::{Deserialize, Serialize};

/// The time over which the owner's own work is averaged, milliseconds.
const SMOOTHED_MS: f64 = 5000.0;
/// For so long after `tern away` input does not count, milliseconds: the Enter key that ended the
/// command is still going up.
const DEAF_MS: i64 = 3000;

/// Whether a node takes guests, and why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// The node takes guests whoever uses it.
    #[default]
    Open,
    /// Nobody uses the node, so it takes guests.
    Idle,
    /// Somebody is at the machine: guests leave.
    InUse,
    /// Nobody is at the machine, but its own processes want all processors: no guest comes.
    Busy,
    /// The node is about to go: guests leave.
    Draining,
    /// The owner takes no guests now.
    Closed,
}

impl Availability {
    /// Tells whether guests may come.
    pub fn takes_guests(self) -> bool {
        matches!(self, Availability::Open | Availability::Idle)
    }
}

/// Measurements of a machine at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    /// The time of the readings.
    pub now_ms: i64,
    /// The machine's own runnable processes, guests not counted, thousandths.
    pub own_milli: u32,
    /// The processors that the machine may use, thousandths.
    pub cores_milli: u32,
    /// The time without input after which the machine is idle.
    pub idle_after_ms: u32,
}

/// Presence of an owner, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Presence {
    /// The last input.
    input_ms: i64,
    /// The owner says that nobody is there, since then, until the next input.
    away_since_ms: Option<i64>,
    /// Input before this time does not count.
    deaf_until_ms: i64,
    /// The owner is there until then, with or without input.
    there_until_ms: i64,
    /// Mean of the machine's own runnable processes, and the time of its last sample.
    own_milli: f64,
    sampled_ms: Option<i64>,
}

impl Presence {
    /// Begins with the last input that is known.
    pub fn new(input_ms: i64) -> Presence {
        Presence {
            input_ms,
            away_since_ms: None,
            deaf_until_ms: i64::MIN,
            there_until_ms: i64::MIN,
            own_milli: 0.0,
            sampled_ms: None,
        }
    }

    /// Notes input. Gives whether it counts.
    pub fn input(&mut self, at_ms: i64) -> bool {
        if at_ms < self.deaf_until_ms {
            return false;
        }
        self.input_ms = self.input_ms.max(at_ms);
        self.away_since_ms = None;
        true
    }

    /// Notes that the owner says to be there, for at least `for_ms`.
    pub fn back(&mut self, now_ms: i64, for_ms: i64) {
        self.deaf_until_ms = i64::MIN;
        self.input(now_ms);
        self.there_until_ms = now_ms.saturating_add(for_ms);
    }

    /// Notes that the owner says that nobody is there, until the next input.
    pub fn away(&mut self, now_ms: i64) {
        self.there_until_ms = i64::MIN;
        self.deaf_until_ms = now_ms.saturating_add(DEAF_MS);
        self.away_since_ms = Some(now_ms);
    }

    /// Tells whether somebody is at the machine.
    pub fn is_used(&self, now_ms: i64, idle_after_ms: u32) -> bool {
        now_ms < self.there_until_ms
            || (self.away_since_ms.is_none() && now_ms.saturating_sub(self.input_ms) < i64::from(idle_after_ms))
    }

    /// Tells for how long nobody has been at the machine.
    pub fn unused_ms(&self, now_ms: i64) -> u64 {
        // Whoever says to go away has been there until then, with or without input.
        let since = self.away_since_ms.unwrap_or(self.input_ms);
        u64::try_from(now_ms.saturating_sub(since)).unwrap_or(0)
    }

    /// Takes a sample of the machine's own work.
    pub fn sample(&mut self, readings: &Readings) {
        let own_milli = f64::from(readings.own_milli);
        let elapsed_ms = self.sampled_ms.map(|at| readings.now_ms.saturating_sub(at).max(0) as f64);
        let part = elapsed_ms.map_or(1.0, |ms| 1.0 - (-ms / SMOOTHED_MS).exp());
        self.own_milli += (own_milli - self.own_milli) * part;
        self.sampled_ms = Some(readings.now_ms);
    }

    /// Judges whether the machine is idle, in use, or busy.
    pub fn judge(&self, readings: &Readings) -> Availability {
        if self.is_used(readings.now_ms, readings.idle_after_ms) {
            Availability::InUse
        } else if self.own_milli.round() as u32 >= readings.cores_milli {
            Availability::Busy
        } else {
            Availability::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(now_ms: i64, own_milli: u32) -> Readings {
        Readings { now_ms, own_milli, cores_milli: 2000, idle_after_ms: 30_000 }
    }

    fn judged(presence: &Presence, now_ms: i64) -> Availability {
        presence.judge(&readings(now_ms, 0))
    }

    #[test]
    fn a_machine_is_idle_some_time_after_the_last_input() {
        let mut presence = Presence::new(-20_000);
        assert_eq!(judged(&presence, 9_999), Availability::InUse);
        assert_eq!((judged(&presence, 10_000), presence.unused_ms(10_000)), (Availability::Idle, 30_000));
        assert!(presence.input(12_000));
        assert_eq!(judged(&presence, 12_000), Availability::InUse);
        assert!(presence.input(11_000), "a device that is read late");
        assert_eq!(judged(&presence, 41_999), Availability::InUse);
        assert_eq!((judged(&presence, 42_000), presence.unused_ms(52_000)), (Availability::Idle, 40_000));
    }

    #[test]
    fn what_the_owner_says_counts_until_the_next_input() {
        let mut presence = Presence::new(0);
        presence.away(1000);
        assert_eq!((judged(&presence, 1000), presence.unused_ms(3000)), (Availability::Idle, 2000));
        assert!(!presence.input(1200), "the key that ended the command goes up");
        assert_eq!(judged(&presence, 2000), Availability::Idle);
        assert!(presence.input(5000));
        assert_eq!((judged(&presence, 5000), judged(&presence, 35_000)), (Availability::InUse, Availability::Idle));
        presence.back(40_000, 0);
        assert_eq!((judged(&presence, 69_999), judged(&presence, 70_000)), (Availability::InUse, Availability::Idle));
        presence.back(80_000, 3_600_000);
        assert_eq!(judged(&presence, 3_679_999), Availability::InUse, "without any input");
        presence.away(200_000);
        assert_eq!(judged(&presence, 200_001), Availability::Idle);
        presence.back(200_100, 0);
        assert_eq!(judged(&presence, 200_101), Availability::InUse, "at once");
    }

    #[test]
    fn own_work_for_all_processors_keeps_guests_out() {
        let mut presence = Presence::new(-60_000);
        presence.sample(&readings(0, 2000));
        assert_eq!(judged(&presence, 0), Availability::Busy, "the first sample counts fully");
        (1..40).for_each(|second| presence.sample(&readings(1000 * second, 1000)));
        assert_eq!(judged(&presence, 40_000), Availability::Idle);
        presence.sample(&readings(41_000, 9000));
        assert_eq!(judged(&presence, 41_000), Availability::Busy);
        presence.sample(&readings(41_000, 9000));
        presence.input(42_000);
        assert_eq!(judged(&presence, 42_000), Availability::InUse, "and send nobody away, as input does");
        let taken = [Availability::Open, Availability::Idle].map(Availability::takes_guests);
        let refused = [Availability::InUse, Availability::Busy, Availability::Draining, Availability::Closed];
        assert!(taken == [true, true] && !refused.into_iter().any(Availability::takes_guests));
    }
}
