//! The arguments of `tern netmon`: those of the paper, and more.

use std::path::PathBuf;

use clap::Subcommand;

use crate::layer::Layer;

/// The default name of a recording.
const FILE: &str = "Netmon.dat";
/// The default name of a file for Prometheus.
const PROMETHEUS: &str = "Netmon.prom";
/// The shortest and the longest period, milliseconds.
const PERIOD_MS: std::ops::RangeInclusive<f64> = 0.01..=3_600_000.0;
/// The longest time, seconds: a year.
const TIME_MAX_S: f64 = 366.0 * 86_400.0;

/// The arguments of `tern netmon`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = HELP)]
pub struct Args {
    /// The command instead of monitoring
    #[command(subcommand)]
    pub what: Option<What>,
    /// Sampling period, milliseconds; fractions are allowed. Daemons, tasks and devices are sampled
    /// every 10 ms at most
    #[arg(short = 'd', long = "period", value_name = "SP", default_value = "0.1", value_parser = period)]
    pub period_ms: f64,
    /// Monitoring time, seconds; fractions are allowed
    #[arg(short = 't', long = "time", value_name = "MT", default_value = "200", value_parser = time)]
    pub time_s: f64,
    /// Show a table of all queues, renewed each second on a terminal; this is the default if
    /// nothing else is asked for
    #[arg(short = 's', long = "display")]
    pub display: bool,
    /// Record everything into a file, Netmon.dat if none is named; - is the standard output
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = FILE)]
    pub file: Option<PathBuf>,
    /// The largest size of the file, MiB: then the recording ends, and the rest goes on
    #[arg(long, value_name = "MIB", default_value = "1024", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub max_size: u64,
    /// Write the values, and maxima and quantiles since the last time, for Prometheus (the textfile
    /// collector of its node exporter), every 15 s and at the end; into Netmon.prom if no file is
    /// named
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = PROMETHEUS)]
    pub prometheus: Option<PathBuf>,
    /// Print every change as a JSON object on a line of its own
    #[arg(long, conflicts_with = "display")]
    pub json: bool,
    /// Print every change as a line of CSV
    #[arg(long, conflicts_with_all = ["display", "json"])]
    pub csv: bool,
    /// Look at sockets and tasks of this process only: a PID or the name of a program; may be given
    /// several times
    #[arg(short = 'p', long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Look at this process and all its descendants only, as tern cosched understands a job: a PID
    /// or the name of a program; may be given several times
    #[arg(short = 'j', long = "job", value_name = "PID|NAME")]
    pub jobs: Vec<String>,
    /// Sample on all nodes of the cluster, each its part, into one recording by one clock; root of
    /// each must allow it (there: tern policy set netmon-by=)
    #[arg(long)]
    pub all: bool,
    /// The layers to look at, with commas between
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Layer::ALL)]
    pub layers: Vec<Layer>,
    /// Sample with real-time priority (SCHED_FIFO): other programs of this machine wait for that
    #[arg(long = "rt")]
    pub real_time: bool,
    /// Whether to hold duplicates of the sockets' descriptors, which are read faster, but delay the
    /// end of connections by up to 10 ms: auto does so where the period needs it
    #[arg(long, value_enum, default_value = "auto")]
    pub hold: HoldName,
    /// Do not ask PVM's daemons, which write their answers to their logs
    #[arg(long)]
    pub no_tickle: bool,
    /// The interfaces to look at
    #[arg(value_name = "INTERFACE", default_value = "eth0")]
    pub interfaces: Vec<String>,
}

const HELP: &str = "\
Estimates have a ~. What the kernel does not tell is left out; docs/netmon.md says why.
Exit status: 0, also if queues are full; 1 if a file cannot be read or written; 2 for a wrong command line.";

/// A command other than monitoring.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Draw each queue of a recording as an SVG file
    Plot(Plot),
    /// Print a recording: as a table, as JSON lines, or as CSV
    Show(Show),
}

/// The arguments of `tern netmon plot`.
#[derive(Clone, Debug, clap::Args)]
pub struct Plot {
    /// File with the recording
    #[arg(default_value = FILE)]
    pub file: PathBuf,
    /// Directory for the pictures
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub into: PathBuf,
    /// Draw queues that were always empty, too
    #[arg(long)]
    pub all: bool,
}

/// The arguments of `tern netmon show`.
#[derive(Clone, Debug, clap::Args)]
pub struct Show {
    /// File with the recording
    #[arg(default_value = FILE)]
    pub file: PathBuf,
    /// Print every record as a JSON object on a line of its own
    #[arg(long)]
    pub json: bool,
    /// Print every change as a line of CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Whether duplicates of descriptors are held, as the user says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HoldName {
    /// Where the period needs it
    Auto,
    /// In no case
    Never,
    /// Wherever it is allowed
    Always,
}

fn period(text: &str) -> Result<f64, String> {
    let period_ms = text.parse().ok().filter(|ms| PERIOD_MS.contains(ms));
    period_ms.ok_or_else(|| format!("a period is from {} to {} milliseconds", PERIOD_MS.start(), PERIOD_MS.end()))
}

fn time(text: &str) -> Result<f64, String> {
    let time_s = text.parse().ok().filter(|s: &f64| *s > 0.0 && *s <= TIME_MAX_S);
    time_s.ok_or_else(|| "a time is more than 0 seconds, and at most a year".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        Line::try_parse_from(["netmon"].into_iter().chain(line.split_whitespace())).unwrap().args
    }

    #[test]
    fn the_defaults_are_the_papers() {
        let args = parse("");
        assert_eq!((args.period_ms, args.time_s, args.interfaces), (0.1, 200.0, vec!["eth0".to_owned()]));
        assert_eq!((args.file, args.display), (None, false));
        assert_eq!(parse("-f").file, Some("Netmon.dat".into()));
    }

    #[test]
    fn the_papers_line_is_understood() {
        let args = parse("-d0.5 -t10 -s -f eth1 eth2");
        assert_eq!((args.period_ms, args.time_s, args.display), (0.5, 10.0, true));
        assert_eq!((args.file, args.interfaces.len()), (Some("Netmon.dat".into()), 2));
        assert_eq!(parse("-f=x.dat -p pvmd -p 12").file, Some("x.dat".into()));
        let args = parse("--prometheus --max-size 5");
        assert_eq!((args.prometheus, args.max_size), (Some("Netmon.prom".into()), 5));
        assert!(Line::try_parse_from(["netmon", "-d", "0"]).is_err());
        assert!(Line::try_parse_from(["netmon", "-t", "-1"]).is_err());
    }

    #[test]
    fn a_recording_can_be_drawn() {
        assert!(matches!(parse("plot x.dat").what, Some(What::Plot(plot)) if plot.file.ends_with("x.dat")));
        assert!(matches!(parse("show").what, Some(What::Show(show)) if show.file.ends_with("Netmon.dat")));
    }
}
