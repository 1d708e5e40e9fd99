//! The program for those who try, measure and develop tern: labs, benchmarks, long runs, the
//! simulator, and a daemon whose clocks can be set. Nodes do without it.

mod coscheduling;
mod paced;
mod sim;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::Dirs;
use tern::{HOST, roles};

/// Clusters in one machine, measurements, and the simulator of tern.
#[derive(Debug, Parser)]
#[command(name = lab::PROGRAM, version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    dirs: Dirs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A cluster in one machine, for trying and testing
    Lab(lab::Args),
    /// Measure tern on this cluster, beside the same natively
    Bench(bench::Args),
    /// Move real programs at random moments while they work, and check what they say
    Soak(bench::soak::Args),
    /// Simulate clusters: the daemon's own gossip and policy, on up to thousands of nodes; or a
    /// processor that coschedules
    Sim(sim::Args),
    /// Be a daemon that goes by other clocks than the machine's
    Daemon(paced::Paced),
    /// A command of tern, whose process goes on as such a daemon where it goes on as one
    #[command(hide = true)]
    AsNode {
        #[command(subcommand)]
        command: cli::Command,
    },
    /// Print completions for a shell
    Completions {
        /// The shell to print them for
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let mut argv: Vec<_> = std::env::args_os().collect();
    let name = argv.first().and_then(|a| std::path::Path::new(a).file_name()).unwrap_or_default();
    if name == "ternd" {
        argv.insert(1, "daemon".into());
    } else if argv.get(1).is_some_and(|word| roles::is_role(word)) {
        return role(&argv[1..]);
    }
    let Arguments { dirs, command } = Arguments::parse_from(argv);
    if matches!(command, Command::Sim(_) | Command::Completions { .. }) {
        // They only write: a reader that has gone (`| head`) ends them without a word.
        home::conversion::restore_signals();
    }
    ExitCode::from(match command {
        Command::Lab(args) => lab::run(args),
        Command::Bench(args) => bench::main(&args, &dirs.run_dir, &dirs.state),
        Command::Soak(args) => bench::soak::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Daemon(args) => paced::main(&args, &dirs),
        Command::AsNode { command } => cli::main(&command, &dirs, HOST),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), lab::PROGRAM, &mut std::io::stdout());
            0
        }
    })
}

/// The lab's own processes, the benchmarks' guests, and those that a daemon starts.
fn role(argv: &[std::ffi::OsString]) -> ExitCode {
    let words: Vec<String> = argv.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    if let Some(status) = lab::role(&words) {
        return ExitCode::from(status);
    }
    match words.split_first() {
        Some((role, args)) if role == "__bench-guest" => {
            tern::logging::to_stderr();
            ExitCode::from(bench::guest::main(args))
        }
        _ => roles::run(&words).unwrap_or_else(|| roles::unknown(&words)),
    }
}
