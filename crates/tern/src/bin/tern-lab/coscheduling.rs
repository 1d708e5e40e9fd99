//! `tern sim cosched`: coscheduling on a simulated processor.

use std::path::PathBuf;

use cosched::model::Parameters;
use cosched::{Experiment, Mode, measure};

/// The most values of one list: a table has three lists.
const MOST_VALUES: usize = 200;

/// Times are in seconds.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Modes to compare
    #[arg(long, value_delimiter = ',', default_value = "implicit,dynamic,sdca", value_name = "MODE,..")]
    mode: Vec<Mode>,
    /// Mean times between arrivals of tasks
    #[arg(long, value_delimiter = ',', default_value = "0.9,1,1.2,1.5,2,3,5,8", value_name = "TIME,..")]
    mit: Vec<f64>,
    /// Probabilities that a task is distributed
    #[arg(long, value_delimiter = ',', default_value = "0.2,0.5,0.8", value_name = "PDT,..")]
    pdt: Vec<f64>,
    #[command(flatten)]
    base: Base,
    /// Runs of each point, with consecutive seeds; the mean is shown
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write the curves of NodeCoDe to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The parameters that all points share.
#[derive(Debug, clap::Args)]
struct Base {
    /// Mean time that a task computes
    #[arg(long, default_value_t = 0.9)]
    mst: f64,
    /// Number of tasks to serve
    #[arg(long, default_value_t = 10_000)]
    nst: u32,
    /// The most messages that a distributed task receives
    #[arg(long, default_value_t = 5)]
    mm: u32,
    /// Time for which a receiver spins before it blocks (implicit)
    #[arg(long, default_value_t = 0.01)]
    spin: f64,
    /// CPU time by which the running task must be ahead of a receiver (dynamic)
    #[arg(long, default_value_t = 0.1)]
    share: f64,
    /// Time slice of the round robin
    #[arg(long, default_value_t = 0.1)]
    quantum: f64,
    /// How often a task may be overtaken until it runs (sdca)
    #[arg(long, default_value_t = 5)]
    mo: u32,
    /// Mean time between the messages of a task that receives k, in units of mst / (k + 1)
    #[arg(long, default_value_t = 1.0)]
    gap: f64,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the experiment and prints what came out of it.
///
/// # Errors
/// A parameter is absurd, the processor is overloaded, or the plot cannot be written.
pub fn run(args: &Args) -> Result<u8, String> {
    let experiment = experiment(args)?;
    let table = measure(&experiment).map_err(|e| e.to_string())?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&table).map_err(|e| e.to_string())?);
    } else {
        println!("tasks: {}; runs of each point: {}; first seed: {}", args.base.nst, args.runs, args.base.seed);
        print!("{}", table.text());
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, table.svg()).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    Ok(0)
}

fn experiment(args: &Args) -> Result<Experiment, String> {
    let longest = args.mode.len().max(args.mit.len()).max(args.pdt.len());
    if longest > MOST_VALUES {
        return Err(format!("a list of {longest} values is too long: at most {MOST_VALUES}"));
    }
    let Base { mst, nst, mm, spin, share, quantum, mo, gap, seed } = args.base;
    let base = Parameters {
        mst_s: mst,
        nst,
        mm,
        spin_s: spin,
        share_s: share,
        quantum_s: quantum,
        most_overtakes: mo,
        gap,
        seed,
        ..Parameters::default()
    };
    let (modes, mits_s, pdts) = (args.mode.clone(), args.mit.clone(), args.pdt.clone());
    Ok(Experiment { modes, mits_s, pdts, base, runs: args.runs })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Result<Experiment, String> {
        let words = std::iter::once(&"cosched").chain(words);
        experiment(&Line::try_parse_from(words).map_err(|e| e.to_string())?.args)
    }

    #[test]
    fn the_defaults_are_those_of_the_crate() {
        assert_eq!(parse(&[]).unwrap(), Experiment::default());
        let one = parse(&["--mode", "SDCA", "--mit", "1.5,2", "--pdt", "0.3", "--mo", "1", "--runs", "3"]).unwrap();
        assert_eq!((one.modes, one.mits_s, one.pdts), (vec![Mode::Sdca], vec![1.5, 2.0], vec![0.3]));
        assert_eq!((one.base.most_overtakes, one.runs), (1, 3));
    }

    #[test]
    fn absurd_lines_are_refused() {
        let many = vec!["1"; MOST_VALUES + 1].join(",");
        for words in [["--mode", "explicit"], ["--mit", "soon"], ["--runs", "0"], ["--mit", &many]] {
            assert!(parse(&words).is_err(), "{words:?}");
        }
        let absurd = parse(&["--mit", "NaN"]).unwrap();
        assert!(measure(&absurd).unwrap_err().to_string().starts_with("mit is from"));
    }
}
