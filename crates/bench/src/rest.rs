//! `tern bench rest`: the costs of this node's daemon when it is idle.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Error;

/// Clock ticks of /proc/PID/stat per second (`USER_HZ`, the same on all Linux machines that tern
/// supports).
const TICKS_PER_S: f64 = 100.0;

/// The arguments of `tern bench rest`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Seconds for which the daemon is watched
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Counts since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    /// CPU time, in seconds.
    cpu_s: f64,
    /// Number of times that a thread waited and was woken.
    wakeups: u64,
    /// Bytes received and sent over this machine's links.
    came: u64,
    went: u64,
}

/// The costs of an idle daemon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct IdleCosts {
    seconds: f64,
    /// Members alive, this node included.
    nodes: usize,
    /// Share of one core, per cent.
    cpu_percent: f64,
    wakeups_per_s: f64,
    /// Resident memory, in MB.
    memory_mb: f64,
    /// All traffic of this machine's links but the loopback, bytes per second.
    came_bytes_per_s: f64,
    went_bytes_per_s: f64,
}

/// Watches the daemon of this node.
pub fn measure(args: &Args) -> Result<String, Error> {
    let pid = daemon()?;
    let nodes = crate::balance::living()?;
    let (start, before) = (Instant::now(), counts(pid)?);
    std::thread::sleep(Duration::from_secs(args.seconds));
    let (seconds, after) = (start.elapsed().as_secs_f64(), counts(pid)?);
    let rest = IdleCosts {
        seconds,
        nodes,
        cpu_percent: (after.cpu_s - before.cpu_s) / seconds * 100.0,
        wakeups_per_s: after.wakeups.saturating_sub(before.wakeups) as f64 / seconds,
        memory_mb: memory_kib(pid)? as f64 * 1024.0 / 1e6,
        came_bytes_per_s: after.came.saturating_sub(before.came) as f64 / seconds,
        went_bytes_per_s: after.went.saturating_sub(before.went) as f64 / seconds,
    };
    Ok(match args.json {
        true => serde_json::to_string_pretty(&rest).unwrap_or_default() + "\n",
        false => format!(
            "{:.0} s beside {} other nodes: {:.2} % of a core, {:.1} wake-ups a second, {:.1} MB, {:.0} bytes a second come and {:.0} go\n",
            rest.seconds,
            rest.nodes.saturating_sub(1),
            rest.cpu_percent,
            rest.wakeups_per_s,
            rest.memory_mb,
            rest.came_bytes_per_s,
            rest.went_bytes_per_s
        ),
    })
}

/// Finds the PID of this node's daemon.
fn daemon() -> Result<u32, Error> {
    let told = crate::balance::ask(&["status", "--json"])?;
    let status: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
    let pid = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.ok_or_else(|| Error::Failed { command: "tern status".into(), status: "no PID".into(), output: told })
}

fn read(path: impl AsRef<Path>) -> Result<String, Error> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(Error::system(format!("reading {}", path.display())))
}

fn counts(pid: u32) -> Result<Counts, Error> {
    let tasks = format!("/proc/{pid}/task");
    let threads = fs::read_dir(&tasks).map_err(Error::system(format!("reading {tasks}")))?;
    // A thread that ends meanwhile does not count: an idle daemon has none.
    let wakeups = threads.flatten().filter_map(|t| wakeups(&fs::read_to_string(t.path().join("status")).ok()?)).sum();
    let (came, went) = traffic(&read(format!("/proc/{pid}/net/dev"))?);
    Ok(Counts { cpu_s: cpu_s(&read(format!("/proc/{pid}/stat"))?), wakeups, came, went })
}

fn wakeups(status: &str) -> Option<u64> {
    status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

fn memory_kib(pid: u32) -> Result<u64, Error> {
    let status = read(format!("/proc/{pid}/status"))?;
    Ok(status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok()).unwrap_or(0))
}

/// Reads fields 14 and 15. The name, in parentheses, may contain anything.
fn cpu_s(stat: &str) -> f64 {
    let behind = stat.rsplit_once(") ").map_or("", |(_, behind)| behind);
    behind.split(' ').skip(11).take(2).filter_map(|w| w.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_S
}

/// Adds up the bytes received and sent by all links but the loopback.
fn traffic(dev: &str) -> (u64, u64) {
    let links = dev.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo");
    links.fold((0, 0), |(came, went), (_, counts)| {
        let mut words = counts.split_whitespace().map(|w| w.parse::<u64>().unwrap_or(0));
        (came + words.next().unwrap_or(0), went + words.nth(7).unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        assert_eq!(wakeups("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t9\n"), Some(12));
        assert!((cpu_s("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0") - 2.0).abs() < 1e-9);
        let dev = "Inter-|   Receive  | Transmit\n face |bytes    packets\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n";
        assert_eq!(traffic(dev), (100, 200));
        let own = std::process::id();
        assert!(memory_kib(own).unwrap() > 0 && counts(own).unwrap().wakeups > 0);
    }
}
