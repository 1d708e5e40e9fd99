//! Scenarios: what runs on what, and what goes wrong. TOML files, which the experiments on real processes read as well.

use std::collections::BTreeMap;

use gossip::Draw;
use policy::Settings;
use serde::{Deserialize, Serialize};

/// Most nodes and processes that a scenario may have.
const NODES_MAX: u32 = 100_000;
const PROCESSES_MAX: u32 = 1_000_000;
/// Longest run, seconds.
const SECONDS_MAX: f64 = 1e7;

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, or not a scenario.
    #[error("this is no scenario")]
    Malformed(#[from] Box<toml::de::Error>),
    /// A value is out of its range.
    #[error("{what} must be {range}")]
    Range {
        /// Which value.
        what: &'static str,
        /// What is allowed.
        range: String,
    },
    /// A policy setting is.
    #[error(transparent)]
    Policy(#[from] policy::SettingError),
}

/// A cluster, its work, and its faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name, for tables and plots.
    pub name: String,
    /// What it shows.
    #[serde(default)]
    pub text: String,
    /// Runs of each row, with seeds that follow each other.
    #[serde(default = "one")]
    pub runs: u32,
    /// The run is ended after so long, seconds.
    pub limit_s: f64,
    /// What is compared.
    #[serde(default)]
    pub columns: Columns,
    /// Job counts, one for each row of the table; they take the place of the first jobs' count.
    #[serde(default)]
    pub rows: Vec<u32>,
    /// Machines.
    pub nodes: Vec<Nodes>,
    /// The network between them.
    #[serde(default)]
    pub network: Network,
    /// Policy settings that differ from the shipped ones.
    #[serde(default)]
    pub policy: BTreeMap<String, Setting>,
    /// Work.
    #[serde(default)]
    pub jobs: Vec<Jobs>,
    /// Processes that run and pause for ever.
    #[serde(default)]
    pub background: Vec<Background>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// Value of a policy setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// On or off.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A word.
    Word(String),
}

/// Which strategies are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Columns(pub Vec<Strategy>);

impl Default for Columns {
    fn default() -> Columns {
        Columns(vec![Strategy::Tern, Strategy::Static, Strategy::Refined])
    }
}

/// How processes are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Placed and moved by the policy.
    Tern,
    /// Placed in turn, and never moved (PVM's policy).
    Static,
    /// Placed in turn, then moved by the policy.
    Refined,
    /// Begun at home, then moved by the policy.
    Moved,
    /// Placed and moved by marginal cost.
    Opportunity,
}

/// Equal machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// How many.
    pub count: u32,
    /// Cores of each.
    #[serde(default = "one_core")]
    pub cores: f64,
    /// Speed of a core against the reference.
    #[serde(default = "one_core")]
    pub speed: f64,
    /// Memory of each, MiB.
    #[serde(default = "gibibyte")]
    pub memory_mib: u32,
}

/// The network between machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Least time of a message, milliseconds.
    pub delay_ms: f64,
    /// What chance adds to it at most, milliseconds.
    pub jitter_ms: f64,
    /// Share of messages that are lost.
    pub loss: f64,
}

impl Default for Network {
    fn default() -> Network {
        Network { delay_ms: 0.2, jitter_ms: 0.3, loss: 0.0 }
    }
}

/// Equal or equally distributed jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// How many.
    pub count: u32,
    /// How much they compute.
    pub work: Work,
    /// When the first starts, seconds.
    #[serde(default)]
    pub at_s: f64,
    /// Mean time between starts (exponential); all at once if 0. Seconds.
    #[serde(default)]
    pub every_s: f64,
    /// Where they are started; at a random node each if absent.
    #[serde(default)]
    pub on: Option<u32>,
    /// Memory of each, MiB.
    #[serde(default = "ten")]
    pub memory_mib: u32,
    /// Calls that it makes at home, a second of running.
    #[serde(default)]
    pub calls_per_s: u32,
}

/// How much a job computes, seconds of a reference core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Always the same.
    Fixed(f64),
    /// Anything between.
    Uniform(f64, f64),
    /// P(X > x) = (least / x)^alpha, cut at most: least, alpha, most.
    Pareto(f64, f64, f64),
}

impl Work {
    /// One value, seconds.
    pub fn draw(&self, draw: &mut Draw) -> f64 {
        match *self {
            Work::Fixed(s) => s,
            Work::Uniform(least, most) => least + (most - least) * draw.unit(),
            Work::Pareto(least, alpha, most) => (least / (1.0 - draw.unit()).powf(1.0 / alpha)).min(most),
        }
    }

    fn values(&self) -> [f64; 3] {
        match *self {
            Work::Fixed(s) => [s, s, 1.0],
            Work::Uniform(least, most) => [least, most, 1.0],
            Work::Pareto(least, alpha, most) => [least, most, alpha],
        }
    }
}

/// Processes that run and pause, each time for anything up to so long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// How many; one on each node in turn.
    pub count: u32,
    /// Longest run, seconds.
    pub run_s: f64,
    /// Longest pause, seconds.
    pub pause_s: f64,
    /// The policy may move them.
    #[serde(default)]
    pub movable: bool,
}

/// What goes wrong, or changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Fault {
    /// A node dies.
    Kill {
        /// When, seconds.
        at_s: f64,
        /// Which.
        node: u32,
    },
    /// The nodes below `below` do not reach the others.
    Cut {
        /// From when, seconds.
        at_s: f64,
        /// For how long, seconds.
        for_s: f64,
        /// Where the cut is.
        below: u32,
    },
    /// A node tells of itself, and of all that it has heard of, what is not so.
    Lie {
        /// From when, seconds.
        at_s: f64,
        /// Which.
        node: u32,
        /// What it says of its load, thousandths.
        load_milli: u32,
        /// What it says of its cores and of their speed, thousandths.
        power_milli: u32,
    },
    /// A node becomes faster or slower.
    Speed {
        /// When, seconds.
        at_s: f64,
        /// Which.
        node: u32,
        /// Its new speed.
        speed: f64,
    },
    /// What runs on a node gets less than it knows of: other work there is hidden from it.
    Hidden {
        /// From when, seconds.
        at_s: f64,
        /// Which.
        node: u32,
        /// What is left.
        share: f64,
    },
    /// A node's clock, by which it times everything, is set forward or back.
    Clock {
        /// When, seconds.
        at_s: f64,
        /// Which.
        node: u32,
        /// By so much, seconds.
        by_s: f64,
    },
}

fn one() -> u32 {
    1
}
fn ten() -> u32 {
    10
}
fn gibibyte() -> u32 {
    1024
}
fn one_core() -> f64 {
    1.0
}

impl Scenario {
    /// Reads a scenario and checks its ranges.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text).map_err(Box::new)?;
        scenario.checked()
    }

    /// The settings that all nodes run with.
    ///
    /// # Errors
    /// An unknown name, or a value out of its range.
    pub fn settings(&self) -> Result<Settings, ScenarioError> {
        let mut settings = Settings::default();
        for (name, value) in &self.policy {
            let text = match value {
                Setting::Flag(on) => if *on { "on" } else { "off" }.to_owned(),
                Setting::Number(number) => number.to_string(),
                Setting::Word(word) => word.clone(),
            };
            settings.set(name, &text)?;
        }
        Ok(settings)
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> u32 {
        self.nodes.iter().fold(0, |sum, n| sum.saturating_add(n.count))
    }

    /// With so many of the first jobs.
    pub fn with_jobs(&self, count: u32) -> Scenario {
        let mut scenario = self.clone();
        if let Some(jobs) = scenario.jobs.first_mut() {
            jobs.count = count;
        }
        scenario
    }

    /// On so many nodes, of each kind in proportion.
    pub fn with_nodes(&self, count: u32) -> Scenario {
        let mut scenario = self.clone();
        let all = f64::from(self.node_count().max(1));
        for nodes in &mut scenario.nodes {
            nodes.count = ((f64::from(nodes.count) * f64::from(count) / all).round() as u32).max(1);
        }
        scenario
    }

    /// Nodes of these speeds instead, in their order: each kind's mean, of those that there are.
    pub fn with_speeds(&self, speeds: &[f64]) -> Scenario {
        let mut scenario = self.clone();
        let mut speeds = speeds.iter().copied();
        for nodes in &mut scenario.nodes {
            let own: Vec<f64> = speeds.by_ref().take(nodes.count as usize).collect();
            if !own.is_empty() {
                nodes.speed = own.iter().sum::<f64>() / own.len() as f64;
            }
        }
        scenario
    }

    fn checked(self) -> Result<Scenario, ScenarioError> {
        let holds = |what, range: &str, ok: bool| match ok {
            true => Ok(()),
            false => Err(ScenarioError::Range { what, range: range.to_owned() }),
        };
        let seconds = |s: f64| (0.0..=SECONDS_MAX).contains(&s);
        let nodes = self.node_count();
        let background = self.background.iter().fold(0u32, |sum, b| sum.saturating_add(b.count));
        let jobs = self.jobs.iter().fold(background, |sum, j| sum.saturating_add(j.count));
        let most = self.rows.iter().copied().max().unwrap_or(0).max(jobs);
        holds("the number of nodes", &format!("1 to {NODES_MAX}"), (1..=NODES_MAX).contains(&nodes))?;
        holds("the number of processes", &format!("at most {PROCESSES_MAX}"), most <= PROCESSES_MAX)?;
        holds("limit_s", "more than 0, at most 1e7", self.limit_s > 0.0 && self.limit_s <= SECONDS_MAX)?;
        holds("runs", "1 to 1000", (1..=1000).contains(&self.runs))?;
        let good = |n: &Nodes| (0.01..=8192.0).contains(&n.cores) && (0.02..=50.0).contains(&n.speed);
        holds("cores and speed of nodes", "0.01 to 8192, and 0.02 to 50", self.nodes.iter().all(good))?;
        let network = &self.network;
        let quick = seconds(network.delay_ms / 1e3) && seconds(network.jitter_ms / 1e3);
        holds("delay, jitter and loss", "0 or more; loss below 1", quick && (0.0..1.0).contains(&network.loss))?;
        let times = |j: &Jobs| seconds(j.at_s) && seconds(j.every_s) && j.on.is_none_or(|n| n < nodes);
        holds("start and place of jobs", "times from 0, and a node that exists", self.jobs.iter().all(times))?;
        let works = |j: &Jobs| {
            let [least, most, alpha] = j.work.values();
            seconds(least) && seconds(most) && least <= most && (0.1..=100.0).contains(&alpha)
        };
        holds("work", "0 to 1e7 s, and alpha 0.1 to 100", self.jobs.iter().all(works))?;
        let pauses = |b: &Background| seconds(b.run_s) && b.pause_s >= 0.01 && seconds(b.pause_s) && b.run_s >= 0.01;
        holds("run_s and pause_s", "0.01 to 1e7 s", self.background.iter().all(pauses))?;
        let faults = |f: &Fault| match *f {
            Fault::Kill { at_s, node } | Fault::Lie { at_s, node, .. } => seconds(at_s) && node < nodes,
            Fault::Cut { at_s, for_s, below } => seconds(at_s) && seconds(for_s) && below <= nodes,
            Fault::Hidden { at_s, node, share } => seconds(at_s) && node < nodes && (0.01..=1.0).contains(&share),
            Fault::Clock { at_s, node, by_s } => seconds(at_s) && node < nodes && seconds(by_s.abs()),
            Fault::Speed { at_s, node, speed } => seconds(at_s) && node < nodes && (0.02..=50.0).contains(&speed),
        };
        holds("faults", "at a time from 0, of a node that exists", self.faults.iter().all(faults))?;
        self.settings()?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        name = "small"
        limit_s = 100
        rows = [1, 2]
        policy = { residency_ms = 500, mode = "balance" }
        [[nodes]]
        count = 2
        [[jobs]]
        count = 3
        work = { pareto = [1.0, 1.1, 50.0] }
        [[faults]]
        kill = { at_s = 3.0, node = 1 }
    "#;

    #[test]
    fn fewer_nodes_of_each_kind() {
        let scenario = Scenario::parse(include_str!("../../../scenarios/speeds.toml")).unwrap().with_nodes(4);
        assert_eq!(scenario.nodes.iter().map(|n| n.count).collect::<Vec<_>>(), [2, 2]);
        let measured = scenario.with_speeds(&[1.0, 1.0, 0.2, 0.4]);
        assert_eq!(measured.nodes.iter().map(|n| (n.speed * 10.0).round()).collect::<Vec<_>>(), [10.0, 3.0]);
    }

    #[test]
    fn scenarios_are_read_and_checked() {
        let scenario = Scenario::parse(GOOD).unwrap();
        assert_eq!((scenario.node_count(), scenario.settings().unwrap().params.residency_ms), (2, 500));
        let refused = |from: &str, to: &str| {
            let mut error: &dyn std::error::Error = &Scenario::parse(&GOOD.replace(from, to)).unwrap_err();
            while let Some(source) = error.source() {
                error = source;
            }
            error.to_string()
        };
        assert!(refused("residency_ms = 500", "residency_ms = 1").contains("from 10 to"));
        assert!(refused("count = 2", "count = 0").contains("number of nodes"));
        assert!(refused("node = 1", "node = 2").contains("a node that exists"));
        assert!(refused("1.1", "nan").contains("alpha"));
        assert!(refused("limit_s = 100", "limit_s = inf").contains("limit_s"));
        assert!(refused("limit_s", "limits").contains("limits"));
    }
}
