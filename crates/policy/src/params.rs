//! The numbers of the policy, each with its range.

use serde::{Deserialize, Serialize};

/// How decisions are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is moved for load.
    Off,
    /// Proportional fairness, without rotation.
    Balance,
    /// The same, with rotation of what cannot be spread evenly.
    #[default]
    Rotate,
    /// Marginal cost over CPU and memory (Amir, Awerbuch, Barak, Borgstrom, Keren 2000).
    Opportunity,
}

macro_rules! params {
    ($($(#[doc = $doc:literal])+ $name:ident: $default:literal in $min:literal..=$max:literal,)+) => {
        /// The policy's numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Params {
            /// How decisions are made.
            pub mode: Mode,
            $($(#[doc = $doc])+ pub $name: u32,)+
        }

        impl Default for Params {
            fn default() -> Params {
                Params { mode: Mode::default(), $($name: $default,)+ }
            }
        }

        impl Params {
            /// Every number: name, value, least, most, and what it means.
            pub fn numbers(&self) -> Vec<(&'static str, u32, u32, u32, &'static str)> {
                vec![$((stringify!($name), self.$name, $min, $max, concat!($($doc,)+).trim_ascii()),)+]
            }

            /// The number of this name, to be changed, and its range.
            pub(crate) fn number(&mut self, name: &str) -> Option<(&mut u32, std::ops::RangeInclusive<u32>)> {
                match name {
                    $(stringify!($name) => Some((&mut self.$name, $min..=$max)),)+
                    _ => None,
                }
            }
        }
    };
}

params! {
    /// A process stays at least so long where it is, milliseconds.
    residency_ms: 1000 in 10..=3_600_000,
    /// For load it does not go back to the node that it came from within so long, milliseconds.
    return_ms: 6000 in 0..=3_600_000,
    /// After a refusal a node is not asked again for so long, milliseconds.
    cooldown_ms: 3000 in 10..=3_600_000,
    /// The least gain for which a process goes to a node that has a core to spare for it, thousandths of utility.
    idle_margin_milli: 400 in 10..=10_000,
    /// The least gain for which it goes to one that has not, thousandths of utility.
    balance_margin_milli: 800 in 10..=10_000,
    /// The least gain for which processes are rotated, thousandths of utility.
    rotate_margin_milli: 300 in 10..=10_000,
    /// A process that has missed so much more than another weighs e times as much, milliseconds.
    lag_scale_ms: 10_000 in 10..=3_600_000,
    /// A move may cost at most this share of a process' age, thousandths: half of those that have lived so long live as long again.
    cost_milli: 100 in 1..=1000,
    /// What a move costs at least, milliseconds.
    move_ms: 20 in 0..=60_000,
    /// How fast memory travels, MiB a second.
    bandwidth_mib_s: 100 in 1..=1_000_000,
    /// What the memory of one process that moves may take of the link, kB a second; 0: all (else 100 at least).
    move_rate_kb_s: 0 in 0..=1_000_000_000,
    /// What a forwarded call costs, microseconds.
    call_us: 60 in 0..=1_000_000,
    /// Below this share of free memory a node moves processes away, thousandths.
    low_memory_milli: 60 in 0..=900,
    /// At this share of time spent waiting for memory it does, too, thousandths.
    pressure_milli: 100 in 1..=1000,
    /// A target keeps this share of its memory free, thousandths.
    reserve_milli: 120 in 0..=900,
    /// Arrivals are counted over so long, milliseconds, and bounded by the cores and one more.
    arrivals_ms: 3000 in 10..=3_600_000,
    /// Readings older than this are not believed, milliseconds.
    stale_ms: 15_000 in 100..=3_600_000,
    /// A node that cannot be reached for so long is lost, and with it what runs there, milliseconds; holds for rooms that are made from then on.
    link_timeout_ms: 15_000 in 1000..=86_400_000,
}
