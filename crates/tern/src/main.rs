//! The binary: daemon, tool and roles. Its first name or first argument decides what it is.

mod daemon;
mod doctor;
mod logging;
mod picture;
mod sim;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::{Dirs, Host};

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

/// `tern run` alone: to describe all the other commands to the parser takes about as long as to ask for a place.
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
    /// Measure tern on this cluster, beside the same natively
    Bench(bench::Args),
    /// Move real programs at random moments while they work, and check what they say
    Soak(bench::soak::Args),
    /// Simulate clusters: the daemon's own gossip and policy, on up to thousands of nodes
    Sim(sim::Args),
    /// What a process is, as a move would carry it
    Image(picture::Args),
    /// A cluster in one machine, for trying and testing
    Lab(lab::Args),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let mut argv: Vec<_> = std::env::args_os().collect();
    let name = argv.first().and_then(|a| std::path::Path::new(a).file_name()).unwrap_or_default();
    if name == "ternd" {
        argv.insert(1, "daemon".into());
    } else if argv.get(1).is_some_and(|a| a.as_encoded_bytes().starts_with(b"__")) {
        return role(&argv[1..]);
    }
    if argv.get(1).is_some_and(|a| a == "run") {
        argv.splice(..2, ["tern run".into()]);
        let Placing { dirs, run } = Placing::parse_from(argv);
        return ExitCode::from(cli::main(&cli::Command::Run(run), &dirs, HOST));
    }
    let arguments = Arguments::parse_from(argv);
    if matches!(arguments.command, Command::Sim(_) | Command::Image(_) | Command::Completions { .. }) {
        // They only write: a reader that has gone (`| head`) ends them without a word.
        deputy::client::restore_signals();
    }
    ExitCode::from(match &arguments.command {
        Command::Tool(command) => cli::main(command, &arguments.dirs, HOST),
        Command::Daemon(args) => daemon::main(args, &arguments.dirs),
        Command::Sim(args) => sim::main(args),
        Command::Image(args) => picture::main(args),
        Command::Bench(args) => bench::main(args, &arguments.dirs.run_dir, &arguments.dirs.state),
        Command::Soak(args) => bench::soak::main(args),
        Command::Lab(_) => {
            let Command::Lab(args) = arguments.command else { return ExitCode::FAILURE };
            lab::run(args)
        }
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Arguments::command(), "tern", &mut std::io::stdout());
            0
        }
    })
}

/// What the tool needs of the kernel's and the daemon's crates.
const HOST: Host = Host {
    probe: doctor::findings,
    restore_inheritance,
    interrupts,
    begins_at_home,
    become_deputy: deputy::client::become_deputy,
    own_address: node::address::own,
    become_daemon: daemon::exec,
    detach_daemon: daemon::detach,
    abandon: |dirs| node::abandon(&dirs.state, &dirs.run_dir).map_err(|e| daemon::chain(&e)),
};

/// Gives this process back what it started with, for the program that it becomes.
fn restore_inheritance() {
    deputy::client::restore_signals();
    deputy::client::restore_descriptors();
}

fn interrupts() -> std::io::Result<std::os::fd::OwnedFd> {
    os::fds::interrupts().map_err(std::io::Error::other)
}

fn begins_at_home(path: &std::path::Path) -> bool {
    homefs::programs::open(path).is_ok_and(|file| homefs::programs::begins_at_home(&file, homefs::programs::who_asks()))
}

/// The processes that the daemon and the lab start.
fn role(argv: &[std::ffi::OsString]) -> ExitCode {
    let text: Vec<String> = argv.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    if let Some(status) = lab::role(&text) {
        return ExitCode::from(status);
    }
    logging::to_stderr();
    match text.split_first().map(|(role, args)| (role.as_str(), args)) {
        Some(("__steward", args)) => return deputy::steward::main(args),
        Some((deputy::steward::heir::ROLE, args)) => return deputy::steward::heir::main(args),
        Some(("__warden", args)) => return room::warden::main(args),
        Some(("__bench-guest", args)) => return ExitCode::from(bench::guest::main(args)),
        _ => {}
    }
    tracing::error!("{} is no role of this program", text.first().map_or("", String::as_str));
    ExitCode::from(2)
}
