//! The program that every node runs: daemon, tool and roles. Its first name or first argument
//! decides what it is.

mod cluster;
mod companion;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::Dirs;
use tern::daemon::Clocks;
use tern::{HOST, daemon, dumping, picture, roles};

/// One process space out of several Linux machines.
#[derive(Debug, Parser)]
#[command(name = "tern", version, max_term_width = 100, after_help = HELP)]
struct Arguments {
    #[command(flatten)]
    dirs: Dirs,
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
Exit status: 0 if all went well, 1 if not, 2 for a wrong command line. `tern run` ends as its program does; see `tern run --help`.
A first use: tern init --detach, tern invite; on another machine: tern join TOKEN --detach; then: tern run -- COMMAND";

/// `tern run` alone: to describe all the other commands to the parser takes about as long as to ask
/// for a place.
#[derive(Debug, Parser)]
#[command(name = "tern run", bin_name = "tern run", about = cli::RUN_ABOUT, after_help = cli::RUN_HELP, max_term_width = 100)]
struct Placing {
    #[command(flatten)]
    run: cli::Run,
    #[command(flatten)]
    dirs: Dirs,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Tool(cli::Command),
    /// Be the daemon (also: call this program `ternd`)
    Daemon(daemon::Args),
    /// Show where messages queue: in PVM, MPI, tern, sockets, queueing disciplines and devices
    Netmon(netmon::command::Args),
    /// Run the tasks of a parallel job at the same time on all nodes, beside local work
    Cosched(coscheduler::Args),
    /// Have whole jobs take turns
    Gang(coscheduler::GangArgs),
    /// What a process is, as a move would carry it
    Image(picture::Args),
    /// Write a whole process to a file, a pipe or a socket, without a daemon
    #[command(after_help = dumping::DUMP_HELP)]
    Dump(dumping::Dump),
    /// Make a process of a dump, and be in its place until it ends
    #[command(after_help = dumping::UNDUMP_HELP)]
    Undump(dumping::UndumpArgs),
    #[command(flatten)]
    Companion(companion::Command),
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
    } else if argv.get(1).is_some_and(|word| word.as_encoded_bytes() == abi::spread::JOB) {
        return ExitCode::from(cli::job(&Dirs::from_environment(), argv.split_off(2), HOST));
    } else if argv.get(1).is_some_and(|word| roles::is_role(word)) {
        let words: Vec<String> = argv[1..].iter().map(|a| a.to_string_lossy().into_owned()).collect();
        return roles::run(&words).unwrap_or_else(|| roles::unknown(&words));
    }
    if argv.get(1).is_some_and(|a| a == "run") {
        argv.splice(..2, ["tern run".into()]);
        let Placing { dirs, run } = Placing::parse_from(argv);
        return ExitCode::from(cli::main(&cli::Command::Run(run), &dirs, HOST));
    }
    let Arguments { dirs, command } = Arguments::parse_from(argv);
    ExitCode::from(match &command {
        Command::Tool(command) => cli::main(command, &dirs, HOST),
        Command::Netmon(args) => netmon::command::main(args, Arc::new(cluster::OfNode { dirs })),
        Command::Cosched(args) => {
            home::conversion::restore_signals();
            coscheduler::main(args, &dirs.run_dir)
        }
        Command::Gang(args) => coscheduler::gang(args, &dirs.run_dir),
        Command::Daemon(args) => daemon::main(args, &dirs, Clocks::MACHINE),
        Command::Image(args) => {
            // A reader that has gone (`| head`) ends it without a word.
            home::conversion::restore_signals();
            picture::main(args)
        }
        Command::Dump(args) => dumping::dump(args),
        Command::Undump(args) => dumping::undump(args),
        Command::Companion(command) => companion::exec(command, &dirs),
        Command::Completions { shell } => {
            home::conversion::restore_signals();
            clap_complete::generate(*shell, &mut Arguments::command(), "tern", &mut std::io::stdout());
            0
        }
    })
}
