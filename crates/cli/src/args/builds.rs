//! The arguments of `tern make`, `tern spread` and `tern shell`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// The text after the help of `tern make`.
pub const MAKE_HELP: &str = "\
There are as many jobs at once as idle processors, unless -j says otherwise. Compilers, linkers and programs that
are known to run for long go to hosts; shells and short helpers stay.
Local are: recipes with TERN_LOCAL=1 in their environment (in a makefile: `target: export TERN_LOCAL = 1`), and
programs whose name, one of whose arguments, or whose whole command a pattern of ./.tern-local or --local fits.
Exit status: that of make.";
/// The text after the help of `tern spread`.
pub const SPREAD_HELP: &str = "\
ninja is told how many jobs there are to be, unless -j says so; make and cargo take tokens for as many jobs as
there are idle processors. Programs that are linked statically start no programs elsewhere.
Local are: programs with TERN_LOCAL=1 in their environment, and those that a pattern of ./.tern-local or --local
fits. Exit status: that of the command.";

/// What `tern make`, `tern spread` and `tern shell` have in common.
#[derive(Clone, Debug, Default, Args)]
pub struct SpreadOptions {
    /// Programs that stay home: their name, an argument, or the whole command; `*` stands for any
    /// text
    #[arg(long, value_name = "PATTERN")]
    pub local: Vec<String>,
    /// File with such patterns, one a line; the default is `.tern-local`, if there is one
    #[arg(long, value_name = "FILE")]
    pub local_file: Option<PathBuf>,
    /// Most hosts to ask for; the default is all
    #[arg(long, value_name = "NUMBER")]
    pub hosts: Option<u32>,
    /// File to write at the end: how many jobs ran where, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// The arguments of `tern make`.
#[derive(Clone, Debug, Args)]
pub struct Make {
    /// Options of tern's own, before those of make
    #[command(flatten)]
    pub options: SpreadOptions,
    /// Arguments of make
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub arguments: Vec<OsString>,
}

/// The arguments of `tern spread`.
#[derive(Clone, Debug, Args)]
pub struct Spread {
    /// Options of tern's own, before the command
    #[command(flatten)]
    pub options: SpreadOptions,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The arguments of `tern shell`.
#[derive(Clone, Debug, Args)]
pub struct Shell {
    /// Options of tern's own
    #[command(flatten)]
    pub options: SpreadOptions,
    /// Shell and its arguments; the default is $SHELL
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
