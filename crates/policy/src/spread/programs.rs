//! The run times of programs so far.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::invocation::{Invocation, Kind};

/// A program that runs for at least so long is worth another place, milliseconds. A placement costs
/// about a tenth of it.
pub const WORTH_MS: u64 = 60;
/// So many kinds of programs are remembered, those that were seen last.
pub const KNOWN_MAX: usize = 2048;
/// A program that stays for being short is measured once in so many times: it may have grown.
const MEASURED_EACH: u64 = 64;
/// Weight of the newest run in the mean, as one over this number.
const NEWEST: u64 = 4;

/// The fate of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// The program is executed as it is.
    Stays,
    /// The program is executed here, and measured.
    Measured,
    /// The program goes to the best place.
    Goes,
}

/// The run times of the programs of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// Mean time of its runs, the newest weighing most, milliseconds.
    mean_ms: u64,
    /// When it was seen last, in questions.
    seen: u64,
    /// Questions since it was measured.
    unmeasured: u64,
}

/// The run times of all programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programs {
    known: BTreeMap<String, Known>,
    questions: u64,
}

impl Programs {
    /// Decides about a program that is to be executed.
    pub fn judge(&mut self, invocation: &Invocation<'_>) -> Worth {
        let kind = invocation.kind();
        if matches!(kind, Kind::Starter | Kind::Helper) {
            return Worth::Stays;
        }
        self.questions += 1;
        let Some(known) = self.known.get_mut(&invocation.key()) else { return Worth::Goes };
        known.seen = self.questions;
        if known.mean_ms >= WORTH_MS {
            return Worth::Goes;
        }
        known.unmeasured += 1;
        if known.unmeasured < MEASURED_EACH {
            return Worth::Stays;
        }
        known.unmeasured = 0;
        Worth::Measured
    }

    /// Tells whether a program is known to be short: it is then measured where it is.
    pub fn is_short(&self, invocation: &Invocation<'_>) -> bool {
        self.known.get(&invocation.key()).is_some_and(|known| known.mean_ms < WORTH_MS)
    }

    /// Notes for how long a program ran, milliseconds.
    pub fn note(&mut self, key: &str, ran_ms: u64) {
        let seen = self.questions;
        let known = self.known.entry(key.to_owned()).or_insert(Known { mean_ms: ran_ms, seen, unmeasured: 0 });
        let mean_ms = (known.mean_ms.saturating_mul(NEWEST - 1).saturating_add(ran_ms)) / NEWEST;
        // One long run is enough: to keep a long program costs more than to send a short one away.
        known.mean_ms = if ran_ms >= WORTH_MS { mean_ms.max(ran_ms / 2) } else { mean_ms };
        known.seen = seen;
        while self.known.len() > KNOWN_MAX {
            let Some(oldest) = self.known.iter().min_by_key(|(_, known)| known.seen).map(|(key, _)| key.clone()) else {
                return;
            };
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulate() -> Invocation<'static> {
        Invocation { path: "./simulate", interpreter: None, arguments: &["7"] }
    }

    #[test]
    fn what_is_not_known_goes_and_what_was_short_stays() {
        let mut programs = Programs::default();
        assert_eq!(programs.judge(&simulate()), Worth::Goes);
        programs.note(&simulate().key(), 5);
        assert_eq!(programs.judge(&simulate()), Worth::Stays);
        programs.note(&simulate().key(), 5000);
        assert_eq!(programs.judge(&simulate()), Worth::Goes);
        (0..30).for_each(|_| programs.note(&simulate().key(), 5));
        assert_eq!(programs.judge(&simulate()), Worth::Stays);
        let measured = (0..MEASURED_EACH * 3).filter(|_| programs.judge(&simulate()) == Worth::Measured).count();
        assert_eq!(measured, 3);
    }

    #[test]
    fn helpers_and_shells_stay_whatever_they_did() {
        let mut programs = Programs::default();
        let shell = Invocation { path: "/bin/sh", interpreter: None, arguments: &["-c", "x"] };
        programs.note(&shell.key(), 100_000);
        assert_eq!(programs.judge(&shell), Worth::Stays);
        assert_eq!(programs.judge(&Invocation { path: "/bin/cp", ..shell }), Worth::Stays);
    }

    #[test]
    fn those_seen_last_are_remembered() {
        let mut programs = Programs::default();
        programs.note(&simulate().key(), 5);
        for n in 0..2 * KNOWN_MAX {
            programs.judge(&simulate());
            programs.note(&format!("program{n}"), 5);
        }
        assert_eq!(programs.known.len(), KNOWN_MAX);
        assert_eq!(programs.judge(&simulate()), Worth::Stays);
    }
}
