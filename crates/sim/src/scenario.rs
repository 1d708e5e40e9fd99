//! Scenarios: machines, work, and faults, as TOML files. The experiments on real processes read the
//! same files.

use std::collections::BTreeMap;

use gossip::Draw;
use policy::Settings;
use serde::{Deserialize, Serialize};

/// The most nodes and processes that a scenario may have.
const NODES_MAX: u32 = 100_000;
const PROCESSES_MAX: u32 = 1_000_000;
/// The longest run, seconds.
const SECONDS_MAX: f64 = 1e7;

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text is not TOML, or not a scenario.
    #[error("the text is not a scenario")]
    Malformed(#[from] Box<toml::de::Error>),
    /// A value is out of its range.
    #[error("{what} must be {range}")]
    Range {
        /// The name of the value.
        what: &'static str,
        /// The allowed range.
        range: String,
    },
    /// A policy setting is refused.
    #[error(transparent)]
    Policy(#[from] policy::SettingError),
}

/// A cluster, its work, and its faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name, for tables and plots.
    pub name: String,
    /// What the scenario shows.
    #[serde(default)]
    pub text: String,
    /// Runs of each row, with consecutive seeds.
    #[serde(default = "one")]
    pub runs: u32,
    /// Time after which the run is ended, seconds.
    pub limit_s: f64,
    /// The strategies that are compared.
    #[serde(default)]
    pub columns: Columns,
    /// Job counts, one for each row of the table; they replace the count of the first jobs.
    #[serde(default)]
    pub rows: Vec<u32>,
    /// The machines of the cluster.
    pub nodes: Vec<Nodes>,
    /// The network between the machines.
    #[serde(default)]
    pub network: Network,
    /// Policy settings that differ from the defaults.
    #[serde(default)]
    pub policy: BTreeMap<String, Setting>,
    /// The jobs of the run.
    #[serde(default)]
    pub jobs: Vec<Jobs>,
    /// Background processes, which run and pause for ever.
    #[serde(default)]
    pub background: Vec<Background>,
    /// The faults of the run.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// The value of a policy setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// On or off.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A word of text.
    Word(String),
}

/// The strategies that are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Columns(pub Vec<Strategy>);

impl Default for Columns {
    fn default() -> Columns {
        Columns(vec![Strategy::Tern, Strategy::Static, Strategy::Refined])
    }
}

/// A way to spread processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// The policy places and moves processes.
    Tern,
    /// Processes are placed in turn and never moved (PVM's policy).
    Static,
    /// Processes are placed in turn, then moved by the policy.
    Refined,
    /// Processes begin at home, then the policy moves them.
    Moved,
    /// Processes are placed and moved by marginal cost.
    Opportunity,
}

/// Machines of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// Number of machines.
    pub count: u32,
    /// Cores of each machine.
    #[serde(default = "one_core")]
    pub cores: f64,
    /// Speed of a core against the reference.
    #[serde(default = "one_core")]
    pub speed: f64,
    /// Memory of each machine, MiB.
    #[serde(default = "gibibyte")]
    pub memory_mib: u32,
}

/// The network between the machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Least time of a message, milliseconds.
    pub delay_ms: f64,
    /// The greatest random addition to that time, milliseconds.
    pub jitter_ms: f64,
    /// Share of messages that are lost.
    pub loss: f64,
}

impl Default for Network {
    fn default() -> Network {
        Network { delay_ms: 0.2, jitter_ms: 0.3, loss: 0.0 }
    }
}

/// Jobs of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// Number of jobs.
    pub count: u32,
    /// Work of each job.
    pub work: Work,
    /// Start of the first job, seconds.
    #[serde(default)]
    pub at_s: f64,
    /// Mean time between starts (exponential), seconds; 0 starts all at once.
    #[serde(default)]
    pub every_s: f64,
    /// Node on which the jobs are started; if absent, a random node for each.
    #[serde(default)]
    pub on: Option<u32>,
    /// Memory of each job, MiB.
    #[serde(default = "ten")]
    pub memory_mib: u32,
    /// Calls that each job makes at home per second of running.
    #[serde(default)]
    pub calls_per_s: u32,
}

/// The work of a job, seconds of a reference core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// The same for all jobs.
    Fixed(f64),
    /// Uniform between the two values.
    Uniform(f64, f64),
    /// Pareto-distributed: P(X > x) = (least / x)^alpha, cut at most. The values are least, alpha,
    /// most.
    Pareto(f64, f64, f64),
}

impl Work {
    /// Draws the work of one job, seconds.
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

/// Processes that run and pause in turn, each time for a random part of the longest time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Number of processes; they are spread over the nodes in turn.
    pub count: u32,
    /// Longest run, seconds.
    pub run_s: f64,
    /// Longest pause, seconds.
    pub pause_s: f64,
    /// Whether the policy may move them.
    #[serde(default)]
    pub movable: bool,
}

/// A fault or a change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Fault {
    /// A node dies.
    Kill {
        /// Time of the death, seconds.
        at_s: f64,
        /// Number of the node.
        node: u32,
    },
    /// The network separates the nodes below `below` from the others.
    Cut {
        /// Begin of the cut, seconds.
        at_s: f64,
        /// Duration of the cut, seconds.
        for_s: f64,
        /// Number of the first node on the other side.
        below: u32,
    },
    /// A node reports false values of itself and of all nodes that it has heard of.
    Lie {
        /// Begin of the lie, seconds.
        at_s: f64,
        /// Number of the node.
        node: u32,
        /// The load that the node reports, thousandths.
        load_milli: u32,
        /// The number of cores and their speed that the node reports, thousandths.
        power_milli: u32,
    },
    /// A node becomes faster or slower.
    Speed {
        /// Time of the change, seconds.
        at_s: f64,
        /// Number of the node.
        node: u32,
        /// The node's new speed.
        speed: f64,
    },
    /// Work that the node does not see takes a part of its cores.
    Hidden {
        /// Begin of the hidden work, seconds.
        at_s: f64,
        /// Number of the node.
        node: u32,
        /// Share of the cores that is left.
        share: f64,
    },
    /// A node's clock, by which the node times everything, is set forward or back.
    Clock {
        /// Time of the change, seconds.
        at_s: f64,
        /// Number of the node.
        node: u32,
        /// Change of the clock, seconds.
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
    /// [`ScenarioError`] for a text that is no scenario or has a value out of its range.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text).map_err(Box::new)?;
        scenario.checked()
    }

    /// Gives the settings with which all nodes run.
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

    /// Counts the nodes of all kinds.
    pub fn node_count(&self) -> u32 {
        self.nodes.iter().fold(0, |sum, n| sum.saturating_add(n.count))
    }

    /// Gives the scenario with another number of the first jobs.
    pub fn with_jobs(&self, count: u32) -> Scenario {
        let mut scenario = self.clone();
        if let Some(jobs) = scenario.jobs.first_mut() {
            jobs.count = count;
        }
        scenario
    }

    /// Gives the scenario with another number of nodes, in proportion to their kinds.
    pub fn with_nodes(&self, count: u32) -> Scenario {
        let mut scenario = self.clone();
        let all = f64::from(self.node_count().max(1));
        for nodes in &mut scenario.nodes {
            nodes.count = ((f64::from(nodes.count) * f64::from(count) / all).round() as u32).max(1);
        }
        scenario
    }

    /// Gives the scenario with nodes of these speeds, in their order. Each kind gets the mean of
    /// its nodes.
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
