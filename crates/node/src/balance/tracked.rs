//! What is known of one process of this home: where it runs, what it wants and gets, what it has
//! missed.

use std::time::Instant;

use ::policy::{Lag, Mean, ProcessView, Tie};
use control_protocol::steward::Guest;
use control_protocol::tool::{Hint, Pin};

/// Over which a process' wants and calls are smoothed, milliseconds.
const SMOOTHED_MS: f64 = 2000.0;

/// What the processes of this home have missed and get, to which one of them is compared.
#[derive(Clone, Copy)]
pub(super) struct Others {
    /// The mean of all.
    pub(super) mean: Mean,
    /// The time within which what was missed is forgotten, the policy's milliseconds.
    pub(super) scale_ms: f64,
}

/// A process of this home.
pub(super) struct Tracked {
    began: Instant,
    /// Where it runs.
    pub node: u64,
    /// Where an order under way takes it.
    pub going: Option<u64>,
    pub came: Instant,
    pub came_from: Option<u64>,
    seen: Instant,
    cpu_us: u64,
    calls: u64,
    /// Calls that home makes for it, a second, smoothed.
    calls_per_s: f64,
    /// Share of time for which it wants a core, all threads together, smoothed.
    pub demand: f64,
    pub lag: Lag,
    /// The same, between the last two looks.
    wanted_lately: f64,
    /// Between these: for how long it wanted a core, and had one, the policy's milliseconds.
    pub wanted_ms: f64,
    pub got_ms: f64,
    /// What it occupies, MiB.
    pub memory_mib: u32,
    pub moves: u32,
    /// Not to be tried until then.
    pub failed: Option<Instant>,
}

impl Tracked {
    /// Where it is, or will be when the order under way is done.
    pub fn expected(&self) -> u64 {
        self.going.unwrap_or(self.node)
    }

    /// It runs elsewhere now.
    pub fn has_moved(&mut self, to: u64, now: Instant) {
        self.going = None;
        if self.node != to {
            (self.came_from, self.node, self.came) = (Some(self.node), to, now);
            self.moves += 1;
        }
    }

    /// Thousandths of a core.
    pub fn demand_milli(&self) -> u32 {
        (self.demand * 1000.0) as u32
    }

    pub fn new(node: u64, guest: &Guest, demand: f64, mean_ms: f64, now: Instant) -> Tracked {
        Tracked {
            began: now,
            node,
            going: None,
            came: now,
            came_from: None,
            seen: now,
            cpu_us: guest.cpu_us,
            calls: guest.calls,
            calls_per_s: 0.0,
            demand,
            wanted_lately: demand,
            lag: Lag::of_newcomer(mean_ms as i32),
            wanted_ms: 0.0,
            got_ms: 0.0,
            memory_mib: memory_mib(guest),
            moves: 0,
            failed: None,
        }
    }

    /// Takes over what the room says of it now. Who waits for a core is runnable as who has one.
    pub fn look(&mut self, guest: &Guest, speed: f64, others: Others, pace: f64, now: Instant) {
        let elapsed_ms = now.duration_since(self.seen).as_secs_f64() * 1e3 * pace;
        (self.wanted_ms, self.got_ms) = (0.0, 0.0);
        if elapsed_ms < 1.0 {
            return;
        }
        // After a move its new body counts from what it has used there.
        let used_ms = guest.cpu_us.saturating_sub(self.cpu_us) as f64 / 1e3 * pace;
        let runs = match (self.going, guest.state) {
            // It stands still because it is moved or was until now, not because it wants nothing:
            // else who is moved often would seem to lack nothing, and be moved more.
            (Some(_), _) | (None, Guest::UNTOLD | Guest::HELD) => self.demand.min(f64::from(guest.threads.max(1))),
            (None, 'R') => 1.0,
            (None, _) => 0.0,
        };
        let wanted = (used_ms / elapsed_ms).clamp(runs, f64::from(guest.threads.max(1)));
        self.wanted_lately = wanted;
        self.demand += (wanted - self.demand) * (1.0 - (-elapsed_ms / SMOOTHED_MS).exp());
        (self.wanted_ms, self.got_ms) = (wanted * elapsed_ms, used_ms);
        self.lag.advance(elapsed_ms, wanted * elapsed_ms, used_ms * speed, others.mean, others.scale_ms);
        let called = guest.calls.saturating_sub(self.calls) as f64 * 1e3 * pace / elapsed_ms;
        self.calls_per_s += (called - self.calls_per_s) * (1.0 - (-elapsed_ms / SMOOTHED_MS).exp());
        (self.seen, self.cpu_us, self.calls) = (now, guest.cpu_us, guest.calls);
        if self.going.is_none() {
            self.memory_mib = memory_mib(guest);
        }
    }

    pub fn view(&self, pid: i32, home: u64, guest: &Guest, pin: Pin, ms: impl Fn(Instant) -> u64) -> ProcessView {
        let memory_mib = memory_mib(guest);
        ProcessView {
            id: u64::try_from(pid).unwrap_or(0),
            home,
            age_ms: ms(self.began),
            resident_ms: ms(self.came),
            // It rises slowly and falls at once: a move comes too late for one that has just gone
            // to sleep.
            demand_milli: (self.demand.min(self.wanted_lately) * 1000.0) as u32,
            lag_ms: self.lag.ms(),
            memory_mib,
            carried_mib: memory_mib,
            moves: self.moves,
            came_from: self.came_from,
            ties: vec![Tie { node: home, calls_per_s: self.calls_per_s as u32 }],
            pinned: pin.stay || guest.state == 'T',
            prefer_home: pin.prefer_home,
            hint: match pin.hint {
                Hint::None => ::policy::Hint::None,
                Hint::Cpu => ::policy::Hint::Cpu,
                Hint::Io => ::policy::Hint::Io,
            },
            in_scope: true,
        }
    }
}

fn memory_mib(guest: &Guest) -> u32 {
    u32::try_from(guest.rss_bytes >> 20).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn guest(state: char, cpu_us: u64) -> Guest {
        Guest { pid: 7, uid: 0, state, cpu_us, rss_bytes: 0, threads: 1, calls: 0, command: String::new() }
    }

    #[test]
    fn who_is_being_moved_still_wants_to_run() {
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        let mut moving = Tracked::new(1, &guest('R', 0), 1.0, 0.0, begin);
        moving.going = Some(2);
        moving.look(&guest('t', 0), 1.0, Others { mean: Mean::default(), scale_ms: 10_000.0 }, 1.0, at(4));
        let mut waiting = Tracked::new(1, &guest('R', 0), 1.0, 0.0, begin);
        waiting.look(&guest('R', 0), 1.0, Others { mean: Mean::default(), scale_ms: 10_000.0 }, 1.0, at(4));
        assert_eq!((moving.demand_milli(), moving.lag.ms()), (waiting.demand_milli(), waiting.lag.ms()));
        for state in [Guest::UNTOLD, Guest::HELD] {
            let mut come = Tracked::new(1, &guest('R', 0), 1.0, 0.0, begin);
            come.look(&guest(state, 0), 1.0, Others { mean: Mean::default(), scale_ms: 10_000.0 }, 1.0, at(4));
            assert_eq!((come.demand_milli(), come.lag.ms()), (waiting.demand_milli(), waiting.lag.ms()), "{state}");
        }
        let mut idle = Tracked::new(1, &guest('R', 0), 1.0, 0.0, begin);
        idle.look(&guest('S', 0), 1.0, Others { mean: Mean::default(), scale_ms: 10_000.0 }, 1.0, at(4));
        assert!(idle.demand_milli() < 200 && idle.lag.ms() == 0, "{}", idle.lag.ms());
    }

    #[test]
    fn who_has_just_gone_to_sleep_is_not_moved() {
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        let mut tracked = Tracked::new(1, &guest('R', 0), 1.0, 0.0, begin);
        let wants = |tracked: &Tracked| tracked.view(7, 1, &guest('S', 0), Pin::default(), |_| 0).demand_milli;
        for (second, state, told, moved) in [(1, 'R', 1000, 1000), (2, 'S', 606, 0), (3, 'R', 761, 761)] {
            tracked.look(&guest(state, 0), 1.0, Others { mean: Mean::default(), scale_ms: 10_000.0 }, 1.0, at(second));
            assert_eq!((tracked.demand_milli(), wants(&tracked)), (told, moved), "{second}");
        }
    }

    #[test]
    fn where_it_goes_counts_before_it_is_there() {
        let now = Instant::now();
        let mut tracked = Tracked::new(1, &guest('R', 0), 1.0, 0.0, now);
        tracked.going = Some(2);
        assert_eq!((tracked.node, tracked.expected()), (1, 2));
        tracked.has_moved(2, now);
        assert_eq!((tracked.node, tracked.expected(), tracked.came_from, tracked.moves), (2, 2, Some(1), 1));
        tracked.has_moved(2, now);
        assert_eq!(tracked.moves, 1);
    }
}
