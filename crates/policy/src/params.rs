//! The numbers of the policy, each with its range.

use serde::{Deserialize, Serialize};

/// How decisions are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is moved for load.
    Off,
    /// Moves aim at proportional fairness, without rotation.
    Balance,
    /// Moves aim at proportional fairness, and rotate processes that cannot be spread evenly.
    #[default]
    Rotate,
    /// Moves aim at the least marginal cost over CPU and memory (Amir, Awerbuch, Barak, Borgstrom,
    /// Keren 2000).
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
            /// Lists all numbers: name, value, least, most, and meaning.
            pub fn numbers(&self) -> Vec<(&'static str, u32, u32, u32, &'static str)> {
                vec![$((stringify!($name), self.$name, $min, $max, concat!($($doc,)+).trim_ascii()),)+]
            }

            /// Finds the number of this name, to be changed, and its range.
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
    /// The least time for which a process stays on a node, milliseconds.
    residency_ms: 1000 in 10..=3_600_000,
    /// The time within which load does not move a process back to the node that it came from,
    /// milliseconds.
    return_ms: 6000 in 0..=3_600_000,
    /// The time for which a node that refused is not asked again, milliseconds.
    cooldown_ms: 3000 in 10..=3_600_000,
    /// The least gain for a move to a node that has a core to spare for the process, thousandths of
    /// utility.
    idle_margin_milli: 400 in 10..=10_000,
    /// The least gain for a move to a node that has no core to spare, thousandths of utility.
    balance_margin_milli: 800 in 10..=10_000,
    /// The least gain for rotating processes, thousandths of utility.
    rotate_margin_milli: 300 in 10..=10_000,
    /// The difference in lag by which a process weighs e times as much as another, milliseconds.
    lag_scale_ms: 10_000 in 10..=3_600_000,
    /// The most that a move may cost as a share of the process' age, thousandths. Half of the
    /// processes of a given age live that long again.
    cost_milli: 100 in 1..=1000,
    /// The fixed cost of a move, milliseconds.
    move_ms: 20 in 0..=60_000,
    /// The rate at which memory travels, MiB per second.
    bandwidth_mib_s: 100 in 1..=1_000_000,
    /// The share of the link that one moving process may use, kB per second; 0 means no limit (else
    /// at least 100).
    move_rate_kb_s: 0 in 0..=1_000_000_000,
    /// The cost of a forwarded call, microseconds.
    call_us: 60 in 0..=1_000_000,
    /// The share of free memory below which a node moves processes away, thousandths.
    low_memory_milli: 60 in 0..=900,
    /// The share of time spent waiting for memory from which on a node moves processes away,
    /// thousandths.
    pressure_milli: 100 in 1..=1000,
    /// The share of its memory that a target keeps free, thousandths.
    reserve_milli: 120 in 0..=900,
    /// The time over which arrivals are counted, milliseconds; at most one more than the number of
    /// cores may arrive.
    arrivals_ms: 3000 in 10..=3_600_000,
    /// The age up to which readings of other nodes are used, milliseconds.
    stale_ms: 15_000 in 100..=3_600_000,
    /// The time without input after which a node with `accept=idle` takes guests, milliseconds.
    idle_after_ms: 30_000 in 0..=86_400_000,
    /// The time without contact after which a node and all that runs there count as lost,
    /// milliseconds. Applies to rooms that are made afterwards.
    link_timeout_ms: 15_000 in 1000..=86_400_000,
    /// The time for which rooms wait for a node that is suspended and has not said for how long,
    /// milliseconds.
    suspend_max_ms: 43_200_000 in 1000..=604_800_000,
}
