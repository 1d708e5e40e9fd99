//! The modes of real jobs, and the parts of which each consists.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::local_share::LocalShare;
use crate::rule::ArrivalRule;
use crate::windows::Windows;

/// The name of a mode, as users write it and as the paper does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeName {
    /// Nothing is changed.
    None,
    /// A task polls for a short time before it waits for a message.
    Spin,
    /// A task takes head and body of a message by one system call.
    Mxi,
    /// Tasks read at once, and poll before they wait.
    MxiSpin,
    /// Tasks come before local work.
    Prio,
    /// Tasks come before local work, and poll before they wait.
    PrioSpin,
    /// Tasks come before local work in windows, and stand still between them.
    Explicit,
    /// A message may put its receiver before others, by Sobalvarro's rule.
    Dynamic,
    /// A message may put its receiver before others, by the number of messages.
    Sdca,
}

impl ModeName {
    /// All modes, in the order of the paper.
    pub const ALL: [ModeName; 9] = [
        ModeName::None,
        ModeName::Spin,
        ModeName::Mxi,
        ModeName::MxiSpin,
        ModeName::Prio,
        ModeName::PrioSpin,
        ModeName::Explicit,
        ModeName::Dynamic,
        ModeName::Sdca,
    ];

    /// Gives the name.
    pub fn name(self) -> &'static str {
        match self {
            ModeName::None => "none",
            ModeName::Spin => "spin",
            ModeName::Mxi => "mxi",
            ModeName::MxiSpin => "mxispin",
            ModeName::Prio => "prio",
            ModeName::PrioSpin => "priospin",
            ModeName::Explicit => "explicit",
            ModeName::Dynamic => "dynamic",
            ModeName::Sdca => "sdca",
        }
    }

    /// Tells whether tasks take head and body of a message at once.
    pub fn reads_ahead(self) -> bool {
        matches!(self, ModeName::Mxi | ModeName::MxiSpin)
    }

    /// Tells whether tasks poll before they wait.
    pub fn spins(self) -> bool {
        matches!(self, ModeName::Spin | ModeName::MxiSpin | ModeName::PrioSpin)
    }

    /// Tells whether tasks come before local work all the time in which they run.
    pub fn comes_first(self) -> bool {
        matches!(self, ModeName::Prio | ModeName::PrioSpin | ModeName::Explicit)
    }

    /// Gives the rule for arrivals, with the settings of the paper.
    pub fn arrival_rule(self) -> Option<ArrivalRule> {
        match self {
            ModeName::Dynamic => Some(ArrivalRule::Share { share_us: 100_000 }),
            ModeName::Sdca => Some(ArrivalRule::Climb { most_overtakes: 5 }),
            _ => None,
        }
    }
}

impl fmt::Display for ModeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none, spin, mxi, mxispin, prio, priospin, explicit, dynamic or sdca is expected")]
pub struct UnknownModeName;

impl FromStr for ModeName {
    type Err = UnknownModeName;

    fn from_str(text: &str) -> Result<ModeName, UnknownModeName> {
        ModeName::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(text)).ok_or(UnknownModeName)
    }
}

/// A mode with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct JobMode {
    /// The mode without its settings.
    pub name: ModeName,
    /// The windows of [`ModeName::Explicit`], and of jobs that take turns.
    pub windows: Option<Windows>,
    /// Tasks that come first do so by a policy of real time.
    pub real_time: bool,
    /// The share of each processor that local work keeps, thousandths; 0: none, where tasks come
    /// first.
    pub local_share: u32,
}

impl JobMode {
    /// Tells whether something must be done on each node where tasks run. Spinning and reading
    /// ahead are done by the tasks themselves, wherever they are.
    pub fn acts_on_nodes(&self) -> bool {
        self.windows.is_some() || self.name.comes_first() || self.name.arrival_rule().is_some()
    }
}

impl From<ModeName> for JobMode {
    /// Takes the usual settings. Windows are counted from the beginning of the agreed clock, so
    /// that all nodes have the same without a word.
    fn from(name: ModeName) -> JobMode {
        let windows = (name == ModeName::Explicit).then(|| Windows::from_epoch(0));
        let local_share = if name.arrival_rule().is_some() { LocalShare::SHARE } else { 0 };
        JobMode { name, windows, real_time: false, local_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_modes() {
        for mode in ModeName::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("".parse::<ModeName>(), Err(UnknownModeName));
    }

    #[test]
    fn each_mode_consists_of_the_parts_in_its_name() {
        for mode in ModeName::ALL {
            assert_eq!(mode.reads_ahead(), mode.name().contains("mxi"));
            assert_eq!(mode.spins(), mode.name().contains("spin"));
        }
        assert_eq!(JobMode::from(ModeName::Explicit).windows.map(|windows| windows.period_us()), Some(100_000));
        assert!(ModeName::Dynamic.arrival_rule().is_some() && ModeName::Prio.arrival_rule().is_none());
    }
}
