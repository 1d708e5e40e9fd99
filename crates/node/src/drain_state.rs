//! How far a drain is: no clock but that of its beginning, no network.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use ::policy::drain;
use control_protocol::drain::{DrainReport, DrainState, DrainedGuest};
use control_protocol::guests::HostedGuest;

/// Note in the run directory: this node is drained.
pub(crate) const NOTE: &str = "drained";

/// The drain of this node, if it is drained or has been.
pub(crate) struct Drains {
    pub(crate) now: Mutex<Option<Drain>>,
    /// A drain has begun, or has another deadline.
    pub(crate) begun: Condvar,
}

impl Drains {
    /// Takes up the drain that an earlier daemon began.
    pub(crate) fn resumed(run_dir: &Path) -> Drains {
        let noted = run_dir.join(NOTE).exists();
        Drains { now: Mutex::new(noted.then(|| Drain::new(None, u64::MAX))), begun: Condvar::new() }
    }
}

/// A drain of this node.
pub(crate) struct Drain {
    begun: Instant,
    by_ms: Option<u64>,
    /// Speed of the link, as the owner has set it; less, if guests were seen to leave more slowly.
    bytes_per_s: u64,
    /// The guests, in the order of the plan.
    pub(crate) guests: Vec<DrainedGuest>,
    /// When the latest guest was let go, milliseconds after the drain began.
    let_go_ms: u64,
    /// Those that are in the log of evictions.
    written: HashSet<(String, i32)>,
}

impl Drain {
    pub(crate) fn new(by_ms: Option<u64>, bytes_per_s: u64) -> Drain {
        Drain {
            begun: Instant::now(),
            by_ms,
            bytes_per_s: bytes_per_s.max(1),
            guests: Vec::new(),
            let_go_ms: 0,
            written: HashSet::new(),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes over who is here: who is not any more has gone, and who is new has still to go.
    pub(crate) fn see(&mut self, here: &[HostedGuest]) {
        let after_ms = self.elapsed_ms();
        for guest in &mut self.guests {
            let is_here = here.iter().any(|h| h.home == guest.home && h.home_pid == guest.pid);
            if !is_here && !guest.state.is_gone() {
                guest.state = DrainState::Gone { after_ms };
            }
        }
        for guest in here {
            let is_known = |g: &DrainedGuest| g.home == guest.home && g.pid == guest.home_pid && !g.state.is_gone();
            if !self.guests.iter().any(is_known) {
                self.guests.push(DrainedGuest {
                    home: guest.home.clone(),
                    pid: guest.home_pid,
                    command: guest.command.clone(),
                    bytes: guest.rss_bytes,
                    to: None,
                    ends_ms: 0,
                    state: DrainState::Waits,
                });
            }
        }
    }

    /// Orders the guests that wait, and says which of them cannot leave in time.
    pub(crate) fn plan(&mut self) {
        let now_ms = self.elapsed_ms();
        // Guests under way have the link first, for the bytes that are not there already.
        let going: u64 = self.of(&DrainState::Goes).map(|guest| guest.bytes).sum();
        let going_ms = going.saturating_mul(1000) / self.bytes_per_s;
        let going_ms = going_ms.saturating_sub(now_ms.saturating_sub(self.let_go_ms));
        let begin_ms = now_ms.saturating_add(going_ms);
        // A guest that was too late may be in time, if others were quicker than planned.
        let is_waiting = |guest: &DrainedGuest| matches!(guest.state, DrainState::Waits | DrainState::TooLate);
        let (waiting, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.guests).into_iter().partition(is_waiting);
        let sizes: Vec<u64> = waiting.iter().map(|guest| guest.bytes).collect();
        let left_ms = self.by_ms.map(|by| by.saturating_sub(begin_ms));
        self.guests = rest;
        for turn in drain(&sizes, self.bytes_per_s, left_ms) {
            let guest = waiting[turn.guest].clone();
            let state = if turn.fits { DrainState::Waits } else { DrainState::TooLate };
            self.guests.push(DrainedGuest { ends_ms: begin_ms.saturating_add(turn.ends_ms), state, ..guest });
        }
    }

    fn of<'a>(&'a self, state: &'a DrainState) -> impl Iterator<Item = &'a DrainedGuest> {
        self.guests.iter().filter(move |guest| guest.state == *state)
    }

    /// Lets the next guests go, as long as no more bytes are under way than that.
    pub(crate) fn take_turns(&mut self, window_bytes: u64) {
        self.measure();
        self.plan();
        let mut going: u64 = self.of(&DrainState::Goes).map(|guest| guest.bytes).sum();
        let now_ms = self.elapsed_ms();
        for guest in self.guests.iter_mut().filter(|guest| guest.state == DrainState::Waits) {
            if going > 0 && going.saturating_add(guest.bytes) > window_bytes {
                break;
            }
            going = going.saturating_add(guest.bytes);
            guest.state = DrainState::Goes;
            self.let_go_ms = now_ms;
        }
    }

    /// A link that turns out to be slower than was said is believed. Only the time until the last
    /// guest had gone counts: what is under way since then is not in the bytes either.
    fn measure(&mut self) {
        const TELLS_BYTES: u64 = 32 << 20;
        let gone = self.guests.iter().filter_map(|guest| match guest.state {
            DrainState::Gone { after_ms } => Some((guest.bytes, after_ms)),
            _ => None,
        });
        let (bytes, last_ms) =
            gone.fold((0u64, 0), |(sum, last), (bytes, ms)| (sum.saturating_add(bytes), ms.max(last)));
        if bytes >= TELLS_BYTES {
            self.bytes_per_s = self.bytes_per_s.min(bytes.saturating_mul(1000) / last_ms.max(1)).max(1);
        }
    }

    /// Gives the guests of which nothing more will come, and which were not given before.
    pub(crate) fn take_news(&mut self) -> Vec<DrainedGuest> {
        let news = self.guests.iter().filter(|guest| !self.written.contains(&(guest.home.clone(), guest.pid)));
        let news: Vec<DrainedGuest> = news.cloned().collect();
        self.written.extend(news.iter().map(|guest| (guest.home.clone(), guest.pid)));
        news
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.guests.iter().all(|guest| guest.state.is_final())
    }

    pub(crate) fn report(&self, node: String) -> DrainReport {
        DrainReport {
            node,
            left_ms: self.by_ms.map(|by| by.saturating_sub(self.elapsed_ms())),
            bytes_per_s: self.bytes_per_s,
            finished: self.is_finished(),
            guests: self.guests.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn guest(pid: i32, bytes: u64) -> HostedGuest {
        HostedGuest {
            pid,
            home: "n1".into(),
            home_pid: pid,
            uid: 0,
            state: 'S',
            cpu_us: 0,
            rss_bytes: bytes,
            threads: 1,
            here_s: 0,
            command: String::new(),
            leaving: None,
            home_suspended_ms: None,
        }
    }

    fn states(drain: &Drain) -> Vec<(i32, char)> {
        let letter = |state: &DrainState| match state {
            DrainState::Waits => 'w',
            DrainState::Goes => 'g',
            DrainState::Gone { .. } => '-',
            DrainState::TooLate => 'l',
            DrainState::Stays { .. } => 's',
        };
        let mut all: Vec<_> = drain.guests.iter().map(|guest| (guest.pid, letter(&guest.state))).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn guests_go_in_turns_and_the_end_is_seen() {
        const MIB: u64 = 1 << 20;
        let mut drain = Drain::new(Some(60_000), 10 * MIB);
        let all = [guest(1, 50 * MIB), guest(2, MIB), guest(3, 40 * MIB), guest(4, 5000 * MIB)];
        drain.see(&all);
        drain.plan();
        assert_eq!(states(&drain), [(1, 'w'), (2, 'w'), (3, 'w'), (4, 'l')]);
        drain.take_turns(64 * MIB);
        assert_eq!(states(&drain), [(1, 'w'), (2, 'g'), (3, 'g'), (4, 'l')], "the quickest first");
        drain.see(&all[..1]);
        assert_eq!(states(&drain), [(1, 'w'), (2, '-'), (3, '-'), (4, '-')]);
        drain.see(&[guest(1, 50 * MIB), guest(5, MIB)]);
        drain.take_turns(64 * MIB);
        assert_eq!(states(&drain), [(1, 'g'), (2, '-'), (3, '-'), (4, '-'), (5, 'g')], "children go, too");
        assert!(!drain.is_finished());
        drain.see(&[]);
        assert!(drain.is_finished() && drain.report("n2".into()).guests.len() == 5);
    }

    #[test]
    fn time_of_a_guest_under_way_does_not_slow_the_link() {
        const MIB: u64 = 1 << 20;
        let mut drain = Drain::new(Some(12_000), 100 * MIB);
        let all: Vec<HostedGuest> = (1..6).map(|pid| guest(pid, 200 * MIB)).collect();
        drain.see(&all);
        drain.take_turns(64 * MIB);
        drain.begun -= Duration::from_millis(2000);
        drain.see(&all[1..]);
        drain.take_turns(64 * MIB);
        drain.begun -= Duration::from_millis(1900);
        drain.see(&all[1..]);
        drain.take_turns(64 * MIB);
        assert_eq!(states(&drain), [(1, '-'), (2, 'g'), (3, 'w'), (4, 'w'), (5, 'w')]);
        assert!(drain.bytes_per_s > 95 * MIB, "{}", drain.bytes_per_s);
    }

    #[test]
    fn large_guests_go_alone() {
        let mut drain = Drain::new(None, 1);
        drain.see(&[guest(1, 1 << 40), guest(2, 1 << 40)]);
        drain.take_turns(1 << 20);
        assert_eq!(states(&drain), [(1, 'g'), (2, 'w')]);
    }
}
