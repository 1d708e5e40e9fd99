//! `tern sim`: runs scenarios in the simulator.

use std::path::{Path, PathBuf};

use ::sim::{Scenario, Setting, Strategy, Table};

use crate::coscheduling;

/// Largest scenario file, bytes.
const FILE_BYTES: u64 = 1 << 20;

/// Scenarios that come with tern.
const KNOWN: [(&str, &str); 8] = [
    ("table1", include_str!("../../../../../scenarios/table1.toml")),
    ("fig2", include_str!("../../../../../scenarios/fig2.toml")),
    ("fig3", include_str!("../../../../../scenarios/fig3.toml")),
    ("speeds", include_str!("../../../../../scenarios/speeds.toml")),
    ("speeds-random", include_str!("../../../../../scenarios/speeds-random.toml")),
    ("usher", include_str!("../../../../../scenarios/usher.toml")),
    ("arrivals", include_str!("../../../../../scenarios/arrivals.toml")),
    ("ten-thousand", include_str!("../../../../../scenarios/ten-thousand.toml")),
];

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Run a scenario: a TOML file, or one of table1, fig2, fig3, speeds, speeds-random, usher,
    /// arrivals, ten-thousand
    Run(Run),
    /// Run tasks on one processor that coschedules those of parallel jobs by their messages, and
    /// tell how often it does (NodeCoDe)
    Cosched(coscheduling::Args),
    /// Run small clusters drawn by seeds, and check what must hold in each
    Seeds {
        /// The first seed
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// How many of them
        #[arg(long, default_value_t = 1000)]
        count: u64,
        /// Print what came out of each as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Run {
    /// File or name
    scenario: PathBuf,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Numbers of jobs, instead of the scenario's
    #[arg(long, value_delimiter = ',')]
    rows: Vec<u32>,
    /// So many nodes, of the scenario's kinds in proportion
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: Option<u32>,
    /// Runs of each row, instead of the scenario's
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// A number of the policy (see `tern policy show`), instead of the shipped one
    #[arg(long, value_name = "NAME=NUMBER")]
    set: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write a plot to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub fn main(args: &Args) -> u8 {
    let result = match &args.what {
        What::Run(args) => run(args),
        What::Cosched(args) => coscheduling::run(args),
        What::Seeds { first, count, json } => seeds(*first, *count, *json),
    };
    result.unwrap_or_else(|reason| {
        eprintln!("tern: {reason}");
        2
    })
}

/// Exit status 1 if something did not hold.
fn run(args: &Run) -> Result<u8, String> {
    let scenario = changed(read(&args.scenario)?, args)?;
    let quiet = args.json;
    if !quiet {
        println!("{}: {} (seed {}, {} runs a row)", scenario.name, scenario.text, args.seed, scenario.runs);
        println!("{}", Table::header(&scenario.columns.0));
    }
    let shown = |row: &::sim::Row| {
        if !quiet {
            println!("{}", row.line());
        }
    };
    let table = ::sim::experiment(&scenario, args.seed, shown).map_err(|e| chain(&e))?;
    if quiet {
        println!("{}", serde_json::to_string_pretty(&table).map_err(|e| e.to_string())?);
    } else {
        print!("{}", table.summary());
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, table.plot()).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    let cells = table.rows.iter().flat_map(|r| r.cells.iter().map(move |c| (r.jobs, c)));
    let mut status = 0;
    for (jobs, cell) in cells.filter(|(_, cell)| cell.strategy != Strategy::Static) {
        for (seed, violation) in &cell.violations {
            eprintln!("{jobs} jobs, {}, seed {seed}: {violation}", cell.strategy.name());
            status = 1;
        }
    }
    Ok(status)
}

/// Gives the scenario as the options want it.
fn changed(mut scenario: Scenario, args: &Run) -> Result<Scenario, String> {
    if let Some(nodes) = args.nodes {
        scenario = scenario.with_nodes(nodes);
    }
    if !args.rows.is_empty() {
        scenario.rows.clone_from(&args.rows);
    }
    scenario.runs = args.runs.unwrap_or(scenario.runs);
    for words in &args.set {
        let number = words.split_once('=').and_then(|(name, number)| Some((name, number.parse().ok()?)));
        let (name, number) = number.ok_or_else(|| format!("--set wants NAME=NUMBER, not {words}"))?;
        scenario.policy.insert(name.to_owned(), Setting::Number(number));
    }
    Ok(scenario)
}

fn seeds(first: u64, count: u64, json: bool) -> Result<u8, String> {
    let mut failed = 0u64;
    for seed in (0..count).map(|n| first.wrapping_add(n)) {
        let scenario = ::sim::random_scenario(seed);
        let outcome = ::sim::run(&scenario, Strategy::Tern, seed).map_err(|e| chain(&e))?;
        if json {
            let line = serde_json::json!({ "seed": seed, "scenario": scenario, "outcome": outcome });
            println!("{line}");
        }
        let violations = ::sim::check(&scenario, &outcome);
        violations.iter().for_each(|v| eprintln!("seed {seed}: {v}"));
        failed += u64::from(!violations.is_empty());
    }
    if !json {
        println!("{count} seeds, {failed} failed");
    }
    Ok(u8::from(failed > 0))
}

fn read(path: &Path) -> Result<Scenario, String> {
    let known = KNOWN.iter().find(|(name, _)| path.as_os_str() == *name).map(|(_, text)| (*text).to_owned());
    let shown = path.display();
    let text = match known {
        Some(text) => text,
        None => {
            let size = std::fs::metadata(path).map_err(|e| format!("cannot read the scenario {shown}: {e}"))?.len();
            if size > FILE_BYTES {
                return Err(format!("{shown} has {size} bytes: a scenario has at most {FILE_BYTES}"));
            }
            std::fs::read_to_string(path).map_err(|e| format!("cannot read the scenario {shown}: {e}"))?
        }
    };
    Scenario::parse(&text).map_err(|e| format!("{shown}: {}", chain(&e)))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_with_tern_can_be_run() {
        for (name, text) in KNOWN {
            let scenario = Scenario::parse(text).unwrap_or_else(|e| panic!("{name}: {}", chain(&e)));
            assert_eq!(scenario.name, name);
        }
        assert!(read(Path::new("/nonexistent")).unwrap_err().contains("cannot read the scenario"));
    }
}
