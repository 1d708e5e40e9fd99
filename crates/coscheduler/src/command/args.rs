//! The arguments of `tern cosched` and `tern gang`.

use std::ffi::OsString;

use clap::Subcommand;
use cosched::{JobMode, ModeName, Windows};

/// The arguments of `tern cosched`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true, after_help = HELP)]
pub struct Args {
    /// The command instead of a mode
    #[command(subcommand)]
    pub what: Option<What>,
    /// The mode: none, spin, mxi, mxispin, prio, priospin, explicit, dynamic or sdca
    pub mode: Option<ModeName>,
    /// The job: these processes and all their descendants, but no daemons and starters (pvmd,
    /// mpiexec, hydra, orted); numbers or names of programs
    #[arg(value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// The job, or a part of it, as an option
    #[arg(short, long = "job", value_name = "PID|NAME")]
    pub jobs: Vec<String>,
    /// Settings of the mode
    #[command(flatten)]
    pub settings: Settings,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The settings of a mode.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// explicit: time for which tasks run, such as 90ms; the default
    #[arg(long = "run", value_name = "TIME", value_parser = time_us)]
    pub run_us: Option<u64>,
    /// explicit: time for which tasks are stopped, such as 10ms; the default
    #[arg(long = "stop", value_name = "TIME", value_parser = time_us)]
    pub stop_us: Option<u64>,
    /// Tasks that come first do so by real time (SCHED_RR), so that others get a twentieth of the
    /// processor only
    #[arg(long)]
    pub real_time: bool,
    /// Share of each processor that local work keeps, such as 30%: dynamic and sdca prefer no task
    /// for longer than the rest (the default is 10%); with prio, priospin and explicit, tasks come
    /// first for the rest of each tenth of a second or window (the default is all of it)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub local_share: Option<u32>,
}

const HELP: &str = "\
The mode ends with the job. `none` and `off` end it before. A job is switched to another mode by naming one of its processes again.
Tasks spin and read ahead (spin, mxi, mxispin, priospin) if they were started below `tern cosched run MODE -- CMD`, and have a dynamic linker.
Tasks that run on other nodes are in the mode there, too, if their owners allow that (there: tern policy set cosched-by=NODE): wherever a task moves, until the job ends, or home is lost for 3 s. Only root's modes go to other nodes. `status` shows all nodes, `off` ends all.
Windows of explicit are counted from 1970 by the clock of the job's home, from which the clocks of other nodes are measured.
Exit status: 0; 1 if the mode cannot be set; 2 for a wrong command line. The command says which means the machine does not allow, and does without them.";

/// A command other than setting a mode.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// List the jobs and their modes
    Status(Output),
    /// End the modes of these processes' jobs, or of all jobs
    Off {
        /// Processes of the jobs; the default is all jobs of the user
        #[arg(value_name = "PID|NAME")]
        processes: Vec<String>,
        /// How to show what is left
        #[command(flatten)]
        output: Output,
    },
    /// Run a command whose descendants are a job
    Run {
        /// The mode of the job
        mode: ModeName,
        /// Settings of the mode
        #[command(flatten)]
        settings: Settings,
        /// Program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
}

/// The format of results.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Output {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `tern gang`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = GANG_HELP)]
pub struct GangArgs {
    /// The jobs: numbers or names of processes of each, with commas between
    #[arg(required = true, num_args = 2.., value_name = "PID|NAME[,...]", value_parser = job)]
    pub jobs: Vec<Named>,
    /// Time of a turn
    #[arg(long = "slice", value_name = "TIME", value_parser = time_us, default_value = "100ms")]
    pub slice_us: u64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const GANG_HELP: &str = "\
Each job is these processes and all their descendants, as for `tern cosched`. Tasks on other nodes take turns there, at the same moments, as `tern cosched --help` says. Jobs that were started on several nodes need the command on each, with the jobs in the same order: turns are counted from 1970.
Messages of a stopped job wait in its own sockets until its next turn. `tern cosched status` shows the time of the switches; `tern cosched off` ends the turns.";

/// The processes that name a job: numbers, or names of programs.
#[derive(Clone, Debug)]
pub struct Named(pub Vec<String>);

impl Settings {
    /// Makes the mode of this name.
    ///
    /// # Errors
    /// A length is out of range, or a setting is not one of this mode.
    pub fn mode(&self, name: ModeName) -> Result<JobMode, String> {
        let usual = JobMode::from(name);
        let has_lengths = self.run_us.is_some() || self.stop_us.is_some();
        let windows = match usual.windows {
            None if has_lengths => return Err(format!("--run and --stop are settings of explicit, not of {name}")),
            None => None,
            Some(windows) => {
                let (run_us, stop_us) =
                    (self.run_us.unwrap_or(Windows::RUN_US), self.stop_us.unwrap_or(Windows::STOP_US));
                Some(windows.with_lengths(run_us, stop_us).map_err(|e| e.to_string())?)
            }
        };
        if self.local_share.is_some() && name.arrival_rule().is_none() && !name.comes_first() {
            return Err(format!("--local-share has no meaning for {name}, which takes nothing from others"));
        }
        let local_share = self.local_share.unwrap_or(usual.local_share);
        Ok(JobMode { windows, real_time: self.real_time, local_share, ..usual })
    }
}

/// Parses a time such as `90ms`, `0.5s` or `800us`. Gives microseconds.
fn time_us(text: &str) -> Result<u64, String> {
    const MOST_US: f64 = 60e6;
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let parsed =
        units.into_iter().find_map(|(unit, us)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * us));
    match parsed {
        Some(us) if (1.0..=MOST_US).contains(&us) => Ok(us as u64),
        _ => Err("a time from 1us to 60s, as 90ms or 0.5s".into()),
    }
}

/// Parses a share such as `30%`. Gives thousandths.
fn share(text: &str) -> Result<u32, String> {
    let percent = text.strip_suffix('%').and_then(|text| text.parse::<f64>().ok());
    let thousandths = percent.map(|percent| percent * 10.0).filter(|thousandths| (1.0..=999.0).contains(thousandths));
    thousandths.map(|thousandths| thousandths as u32).ok_or_else(|| "a share from 0.1% to 99.9%, as 30%".into())
}

fn job(text: &str) -> Result<Named, String> {
    let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
    if words.iter().any(String::is_empty) {
        Err("names with commas between are expected".into())
    } else {
        Ok(Named(words))
    }
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

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Line::try_parse_from(["cosched"].into_iter().chain(line.split_whitespace())).map(|line| line.args)
    }

    #[test]
    fn modes_and_commands_are_told_apart() {
        let args = parse("explicit --run 80ms 12 13").unwrap();
        assert_eq!(
            (args.mode, args.processes.as_slice()),
            (Some(ModeName::Explicit), &["12".to_owned(), "13".to_owned()][..])
        );
        let windows = args.settings.mode(ModeName::Explicit).unwrap().windows.unwrap();
        assert_eq!((windows.run_us(), windows.period_us()), (80_000, 90_000));
        assert!(matches!(parse("off 5").unwrap().what, Some(What::Off { processes, .. }) if processes == ["5"]));
        assert!(
            matches!(parse("run mxi -- pvmd -n x").unwrap().what, Some(What::Run { command, .. }) if command.len() == 3)
        );
        assert_eq!(parse("prio --job pvmd3").unwrap().jobs, ["pvmd3"]);
        assert!(parse("often 12").is_err() && parse("prio --job").is_err());
    }

    #[test]
    fn settings_belong_to_modes() {
        let settings = parse("prio 1 --stop 5ms").unwrap().settings;
        assert!(settings.mode(ModeName::Prio).is_err() && settings.mode(ModeName::Explicit).is_ok());
        let settings = parse("sdca 1 --local-share 30%").unwrap().settings;
        assert_eq!(settings.mode(ModeName::Sdca).map(|mode| mode.local_share), Ok(300));
        assert_eq!(settings.mode(ModeName::Prio).map(|mode| mode.local_share), Ok(300));
        assert!(settings.mode(ModeName::Spin).is_err());
    }

    #[test]
    fn numbers_have_units_and_bounds() {
        assert_eq!(["90ms", "0.5s", "800us"].map(time_us), [Ok(90_000), Ok(500_000), Ok(800)]);
        for bad in ["90", "-1ms", "61s", "NaNs", ""] {
            assert!(time_us(bad).is_err(), "{bad}");
        }
        for bad in ["30", "0%", "100%", "NaN%", "%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        assert!(job("1,2").is_ok() && job("1,,2").is_err());
    }
}
