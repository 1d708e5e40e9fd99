//! The modes of the simulated processor, and what each does when a message arrives.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// How a processor coschedules by messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A receiver spins before it blocks. Arrivals change no order.
    Implicit,
    /// Sobalvarro's rule: a receiver runs at once if it has had less of the processor.
    Dynamic,
    /// The share dynamic coscheduling algorithm: a receiver climbs past tasks with fewer messages.
    Sdca,
}

impl Mode {
    /// All modes, from the one that coschedules least.
    pub const ALL: [Mode; 3] = [Mode::Implicit, Mode::Dynamic, Mode::Sdca];

    /// Gives the name for tables and plots.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Implicit => "IMPLICIT",
            Mode::Dynamic => "DYNAMIC",
            Mode::Sdca => "SDCA",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("implicit, dynamic or sdca is expected")]
pub struct UnknownMode;

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Mode, UnknownMode> {
        Mode::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(text)).ok_or(UnknownMode)
    }
}

/// The rule by which an arrival changes the order of a processor's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalRule {
    /// The order stays.
    Keep,
    /// The receiver runs at once if its CPU time plus this is less than the running task's.
    Share {
        /// The difference that must be exceeded, microseconds.
        share_us: u64,
    },
    /// The receiver overtakes each task ahead that has fewer messages pending. A task is overtaken
    /// at most so many times until it runs.
    Climb {
        /// The bound on overtaking ("MO").
        most_overtakes: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_modes() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().to_lowercase().parse(), Ok(mode));
        }
        assert_eq!("explicit".parse::<Mode>(), Err(UnknownMode));
        assert_eq!("".parse::<Mode>(), Err(UnknownMode));
    }
}
