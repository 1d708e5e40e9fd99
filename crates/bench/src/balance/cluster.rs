//! The nodes that jobs run on, and how fast they are.

use super::{Job, refused};
use crate::Error;
use crate::run::{me, tern};
use serde_json::Value;
use sim::Scenario;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long is waited for all nodes' loads.
const LOADS_WITHIN: Duration = Duration::from_secs(60);
/// Shares may differ so much from what they should be: quotas are whole milliseconds.
const ROUNDING: f64 = 0.06;
/// How long the jobs run that tell the nodes' speeds, seconds; for how long they have run before, for what starting one takes is paid by its node for a while;
/// and rounds of the one that tells how long that is about.
const TRIED_S: f64 = 6.0;
const BEFORE_S: f64 = 3.0;
const TRIED_ROUNDS: u64 = 100_000_000;

/// The cluster as it is.
pub struct Cluster {
    /// Names of the nodes, in the scenario's order.
    pub nodes: Vec<String>,
    /// Rounds of [`burn`](crate::burn::burn) that a job alone on a node of the scenario's first kind gets in a second.
    pub rounds_per_s: f64,
    /// Rounds of [`burn`](crate::burn::burn) in a second of CPU time: how fast the cores are now.
    pub rounds_per_cpu_s: f64,
    /// Rounds a second of each node, as parts of the first kind's.
    pub rates: Vec<f64>,
    /// What part of its node's share of a core a job gets that is alone there.
    pub share: f64,
    /// MiB of a node for one MiB of the scenario's.
    pub memory: f64,
}

/// What this tool says to such a question.
pub fn ask(words: &[&str]) -> Result<String, Error> {
    let done = Command::new(tern()?).args(words).output().map_err(Error::system("running tern"))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(Error::Failed {
            command: format!("tern {}", words.join(" ")),
            status: done.status.to_string(),
            output: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        }),
    }
}

/// The other nodes that are alive.
pub fn others() -> Result<Vec<Value>, Error> {
    let nodes: Vec<Value> = serde_json::from_str(&ask(&["nodes", "--json"])?).map_err(|e| refused(e.to_string()))?;
    let mut others: Vec<Value> = nodes.into_iter().filter(|n| n["state"] == "alive" && n["here"] == false).collect();
    let index =
        |node: &Value| node["name"].as_str().and_then(|n| n.strip_prefix('n')?.parse().ok()).unwrap_or(u32::MAX);
    others.sort_by_key(index);
    Ok(others)
}

/// How many nodes are alive, this one included.
pub fn living() -> Result<usize, Error> {
    Ok(others()?.len() + 1)
}

/// As many other nodes as the scenario has, with shares of a core that are to each other as its speeds are. If jobs hold `memory`, with no more of it than the scenario's: to fill it takes time, of
/// which the bounds know nothing, and nodes of a lab without limits share one machine's.
pub fn find(scenario: &Scenario, memory: bool) -> Result<Cluster, Error> {
    let start = Instant::now();
    let others = loop {
        let others = others()?;
        // Loads of a cluster that has just begun are still on their way.
        if others.iter().all(|n| n["load"].is_object()) || start.elapsed() > LOADS_WITHIN {
            break others;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let wanted: Vec<f64> = scenario.nodes.iter().flat_map(|n| std::iter::repeat_n(n.speed, n.count as usize)).collect();
    let unfit = |why: String| Err(refused(format!("{why} ({})", lab(&wanted, memory))));
    if others.len() != wanted.len() {
        return unfit(format!("{} nodes beside this one are wanted, {} are there", wanted.len(), others.len()));
    }
    let capacity = |node: &Value| node["load"]["capacity_milli"].as_f64().unwrap_or(0.0) / 1000.0;
    let units: Vec<f64> = others.iter().zip(&wanted).map(|(node, speed)| capacity(node) / speed).collect();
    let unit = units.iter().sum::<f64>() / units.len().max(1) as f64;
    if unit <= 0.0 || units.iter().any(|u| (u - unit).abs() > ROUNDING * unit) {
        return unfit("the nodes have not the scenario's shares of a core".into());
    }
    let memory_mib = |node: &Value| node["load"]["memory_mib"].as_f64().unwrap_or(0.0);
    let least = others.iter().map(memory_mib).fold(f64::INFINITY, f64::min);
    let scenarios = scenario.nodes.iter().map(|n| f64::from(n.memory_mib)).fold(f64::INFINITY, f64::min);
    if memory && least > scenarios {
        return unfit(format!("nodes with at most {scenarios} MiB of memory are wanted, these have {least}"));
    }
    let nodes: Vec<String> = others.iter().filter_map(|n| n["name"].as_str()).map(str::to_owned).collect();
    let Rates { rates, rounds_per_cpu_s, share } = rates(&nodes, &wanted, unit)?;
    let rounds_per_s = rates.iter().zip(&wanted).filter(|(_, w)| **w == wanted[0]).map(|(r, w)| r / w);
    let rounds_per_s = mean(rounds_per_s);
    Ok(Cluster {
        rates: rates.iter().map(|r| r / rounds_per_s).collect(),
        nodes,
        rounds_per_s,
        rounds_per_cpu_s,
        share,
        memory: least / scenarios.max(1.0),
    })
}

struct Rates {
    /// Rounds a second that a job gets on each node while every node has one.
    rates: Vec<f64>,
    rounds_per_cpu_s: f64,
    /// What part that is of the nodes' shares: daemons run there, too, and at a pace they take more of it.
    share: f64,
}

fn rates(nodes: &[String], wanted: &[f64], unit: f64) -> Result<Rates, Error> {
    // A room takes long to make where there is a part of a core alone, and is made once.
    nodes.iter().try_for_each(|node| ask(&["run", "--on", node, "--", "true"]).map(drop))?;
    let about = Job::run(TRIED_ROUNDS).map_err(Error::system("calibrating"))?.rounds_per_cpu_s();
    let job = |node: &String, speed: f64| -> Result<Job, Error> {
        let rounds = |seconds: f64| ((about * unit * speed * seconds) as u64).max(1).to_string();
        let me = me()?;
        let mut command = Command::new(tern()?);
        command.args(["run", "--on", node, "--"]).arg(&me).args([
            "__bench-guest",
            "job",
            &rounds(BEFORE_S),
            &rounds(TRIED_S),
        ]);
        let done = command.output().map_err(Error::system("running a job"))?;
        Job::of_output(&done.stderr)
    };
    let jobs: Result<Vec<Job>, Error> = std::thread::scope(|scope| {
        let jobs: Vec<_> = nodes.iter().zip(wanted).map(|(node, speed)| scope.spawn(|| job(node, *speed))).collect();
        jobs.into_iter().map(|job| job.join().map_err(|_| refused("a thread died"))?).collect()
    });
    let jobs = jobs?;
    let rounds_per_cpu_s = Job::sum(&jobs).rounds_per_cpu_s();
    let rates: Vec<f64> = jobs.iter().map(Job::rounds_per_s).collect();
    let share = mean(rates.iter().zip(wanted).map(|(rate, speed)| rate / (rounds_per_cpu_s * unit * speed)));
    Ok(Rates { rates, rounds_per_cpu_s, share })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / f64::max(count, 1.0)
}

/// How such a lab is made.
fn lab(speeds: &[f64], memory: bool) -> String {
    const SHARE: f64 = 0.1;
    let fast = speeds.iter().take_while(|s| **s == speeds[0]).count();
    let mut words = format!("tern lab up --nodes {} --cpus {SHARE} --pace 20", speeds.len() + 1);
    if let Some(slow) = speeds.get(fast) {
        words += &format!(" --cpus-of n{}-n{}={:.4}", fast + 2, speeds.len() + 1, SHARE * slow);
    }
    if memory {
        words += " --mem 512M";
    }
    words
}
