//! Commands of `tern-lab`, the program beside this one that only developers and experimenters need:
//! `tern lab ...` becomes `tern-lab lab ...`, as git does with its commands.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use clap::Subcommand;
use cli::Dirs;

/// Commands that `tern-lab` has.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure tern on this cluster, beside the same natively (tern-lab)
    #[command(disable_help_flag = true)]
    Bench(Words),
    /// Move real programs at random moments while they work, and check what they say (tern-lab)
    #[command(disable_help_flag = true)]
    Soak(Words),
    /// Simulate clusters: the daemon's own gossip and policy, on up to thousands of nodes; or a
    /// processor that coschedules (tern-lab)
    #[command(disable_help_flag = true)]
    Sim(Words),
    /// A cluster in one machine, for trying and testing (tern-lab)
    #[command(disable_help_flag = true)]
    Lab(Words),
}

/// Words that this program does not read.
#[derive(Debug, clap::Args)]
pub struct Words {
    /// As `tern-lab COMMAND --help` says
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    words: Vec<OsString>,
}

/// Becomes `tern-lab`; the exit status where that fails.
pub fn exec(command: &Command, dirs: &Dirs) -> u8 {
    let (name, Words { words }) = match command {
        Command::Bench(words) => ("bench", words),
        Command::Soak(words) => ("soak", words),
        Command::Sim(words) => ("sim", words),
        Command::Lab(words) => ("lab", words),
    };
    // Beside this program; else wherever the search path finds it.
    let beside = std::env::current_exe().map(|own| own.with_file_name(lab::PROGRAM)).ok();
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(lab::PROGRAM));
    let mut becoming = std::process::Command::new(&program);
    becoming.arg("--state").arg(&dirs.state).arg("--run-dir").arg(&dirs.run_dir).arg(name).args(words);
    let error = becoming.exec();
    eprintln!("tern: cannot run {} for `tern {name}`: {error}", program.display());
    if error.kind() == ErrorKind::NotFound {
        eprintln!("hint: `tern {name}` is part of the package tern-lab; nodes do without it");
    }
    1
}
