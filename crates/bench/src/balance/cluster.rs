//! The nodes on which jobs run, and their speeds.

use super::{Job, refused};
use crate::Error;
use crate::run::{me, tern};
use serde_json::Value;
use sim::Scenario;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest wait for the loads of all nodes.
const LOADS_WITHIN: Duration = Duration::from_secs(60);
/// The greatest error of a node's share: quotas are whole milliseconds.
const ROUNDING: f64 = 0.06;
/// Duration of the jobs that measure the nodes' speeds, seconds; the time that they have run
/// before, because a node pays for starting a job for a while; and the rounds of the job that tells
/// how long that is about.
const TRIED_S: f64 = 6.0;
const BEFORE_S: f64 = 3.0;
const TRIED_ROUNDS: u64 = 100_000_000;

/// The nodes of the cluster.
pub struct Cluster {
    /// Names of the nodes, in the scenario's order.
    pub nodes: Vec<String>,
    /// Rounds of [`burn`](crate::burn::burn) that a job alone on a node of the scenario's first
    /// kind gets in a second.
    pub rounds_per_s: f64,
    /// Rounds of [`burn`](crate::burn::burn) in a second of CPU time: how fast the cores are now.
    pub rounds_per_cpu_s: f64,
    /// Rounds per second of each node, as shares of the first kind's.
    pub rates: Vec<f64>,
    /// The share of a node's part of a core that a job alone on the node gets.
    pub share: f64,
    /// MiB of a node for one MiB of the scenario.
    pub memory: f64,
}

/// Runs a command of this tool, and gives its output.
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

/// Lists the other nodes that are alive.
pub fn others() -> Result<Vec<Value>, Error> {
    let nodes: Vec<Value> = serde_json::from_str(&ask(&["nodes", "--json"])?).map_err(|e| refused(e.to_string()))?;
    let mut others: Vec<Value> = nodes.into_iter().filter(|n| n["state"] == "alive" && n["here"] == false).collect();
    let index =
        |node: &Value| node["name"].as_str().and_then(|n| n.strip_prefix('n')?.parse().ok()).unwrap_or(u32::MAX);
    others.sort_by_key(index);
    Ok(others)
}

/// Counts the nodes that are alive, this one included.
pub fn living() -> Result<usize, Error> {
    Ok(others()?.len() + 1)
}

/// Finds as many other nodes as the scenario has, with shares of a core in the proportions of its
/// speeds. If jobs hold `memory`, the nodes may have no more of it than the scenario's: filling it
/// takes time that the bounds do not include, and nodes of a lab without limits share one machine's
/// memory.
pub fn find(scenario: &Scenario, memory: bool) -> Result<Cluster, Error> {
    let start = Instant::now();
    let others = loop {
        let others = others()?;
        // The loads of a new cluster are still under way.
        if others.iter().all(|n| n["load"].is_object()) || start.elapsed() > LOADS_WITHIN {
            break others;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let wanted: Vec<f64> = scenario.nodes.iter().flat_map(|n| std::iter::repeat_n(n.speed, n.count as usize)).collect();
    let unfit = |why: String| Err(refused(format!("{why} ({})", lab(&wanted, memory))));
    if others.len() != wanted.len() {
        return unfit(format!(
            "the scenario needs {} nodes beside this one, and {} are alive",
            wanted.len(),
            others.len()
        ));
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
        return unfit(format!(
            "the scenario needs nodes with at most {scenarios} MiB of memory, and these have {least} MiB"
        ));
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
    /// Rounds per second of a job on each node while every node has one.
    rates: Vec<f64>,
    rounds_per_cpu_s: f64,
    /// The share of the nodes' parts that jobs get. Daemons run there, too, and at a pace they take
    /// more of it.
    share: f64,
}

fn rates(nodes: &[String], wanted: &[f64], unit: f64) -> Result<Rates, Error> {
    // A room takes long to make with a part of a core, and is made once.
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

/// Gives the command that makes a suitable lab.
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
