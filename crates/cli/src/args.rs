//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use ctl::guests::Whom;
use identity::NodeName;

/// Where the node's files are.
#[derive(Clone, Debug, Args)]
pub struct Dirs {
    /// State directory: this node's identity
    #[arg(long, global = true, env = ctl::paths::STATE_ENV, default_value = identity::DEFAULT_DIR, value_name = "DIR")]
    pub state: PathBuf,
    /// Directory of sockets and logs
    #[arg(long, global = true, env = ctl::paths::RUN_ENV, default_value = ctl::paths::RUN_DIR, value_name = "DIR")]
    pub run_dir: PathBuf,
    /// For how long ternd may say nothing before it is given up, as 500ms, 60s; a move tells each second how far it is
    #[arg(long, global = true, env = "TERN_TIMEOUT", value_parser = timeout, default_value = "60s", value_name = "TIME")]
    pub timeout: Duration,
}

fn timeout(text: &str) -> Result<Duration, String> {
    duration_us(text).map(Duration::from_micros)
}

/// What the tool can be asked.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Make a cluster with this machine as its first node
    Init(Init),
    /// Make one-time invitations for machines to join
    Invite(Invite),
    /// Join a cluster with an invitation
    Join(Join),
    /// Leave the cluster: bring this home's processes back, send guests home, tell the others, forget this node's
    /// identity, end ternd
    Leave {
        /// End the processes that cannot go home; without a ternd, forget the identity without telling the others
        #[arg(long)]
        force: bool,
    },
    /// List the nodes
    Nodes(Output),
    /// List the processes that were started here and run elsewhere; for root also guests of other homes
    Ps(Output),
    /// List the guests: processes of other homes that run on this node
    Guests(Output),
    /// Send guests home, whoever brought them here (for good: `tern policy set guests=off`)
    Evict(Evict),
    /// Say why a process is where it is, what has happened to it, and what was refused to it
    Why(Why),
    /// [`RUN_ABOUT`]
    #[command(about = RUN_ABOUT, after_help = RUN_HELP)]
    Run(Run),
    /// Move a running process to a node, or home
    Move(Move),
    /// Test what this machine offers, or whether programs of this node can run on NODE
    Doctor {
        /// The other node
        node: Option<String>,
        /// How to show it
        #[command(flatten)]
        output: Output,
    },
    /// Show ternd's log, or the policy's decisions
    Log {
        /// How many lines
        #[arg(short = 'n', long, default_value_t = 100)]
        lines: u32,
        /// The decisions instead, each with all its inputs: one JSON object a line, for `tern replay`
        #[arg(long)]
        decisions: bool,
    },
    /// Show or set how this node decides where processes run
    Policy {
        /// What to do
        #[command(subcommand)]
        what: Policy,
    },
    /// Say what the policy may do with a process
    Pin(Pin),
    /// Make the decisions of a log again, and say whether they come out alike
    Replay {
        /// What `tern log --decisions` printed; `-` reads it from standard input
        file: PathBuf,
        /// How to show it
        #[command(flatten)]
        output: Output,
    },
    /// Show the state of the local ternd
    Status(Output),
    /// Show the version
    Version(Output),
}

/// `tern evict`
#[derive(Clone, Debug, Args)]
pub struct Evict {
    /// PID on this machine, as `tern guests` lists it; the name of a home; or `all`
    #[arg(value_name = "PID|HOME|all")]
    pub whom: String,
    /// End the guests that cannot go home
    #[arg(long)]
    pub kill: bool,
    /// How to show what became of them
    #[command(flatten)]
    pub output: Output,
}

impl Evict {
    /// The guests that are meant.
    pub(crate) fn whom(&self) -> Whom {
        match self.whom.parse() {
            Ok(pid) => Whom::Pid(pid),
            Err(_) if self.whom == "all" => Whom::All,
            Err(_) => Whom::Home(self.whom.clone()),
        }
    }
}

/// `tern policy`
#[derive(Clone, Debug, Subcommand)]
pub enum Policy {
    /// Show all settings
    Show(Output),
    /// Change settings, all that are named or none. `scope=` may be given more than once: `started` (what tern started),
    /// `users`, `mine` (all processes of the user who says so), `tree:PID` (a process and what it starts), `user:NAME` (root);
    /// `-tree:PID` and `-user:NAME` take them out again
    Set {
        /// What, as `tern policy show` lists it
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = assignment)]
        changes: Vec<(String, String)>,
    },
}

/// `tern why`
#[derive(Clone, Debug, Args)]
pub struct Why {
    /// PID at home
    pub pid: i32,
    /// Say also whether it could be moved to this node
    pub node: Option<String>,
    /// How to show it
    #[command(flatten)]
    pub output: Output,
}

/// `tern pin`
#[derive(Clone, Debug, Args)]
pub struct Pin {
    /// PID at home
    pub pid: i32,
    /// It goes home whenever home can run it, instead of staying where it is
    #[arg(long)]
    pub prefer_home: bool,
    /// What it does, instead of staying where it is
    #[arg(long, value_enum)]
    pub hint: Option<Hint>,
    /// As if nothing had been said
    #[arg(long, conflicts_with_all = ["prefer_home", "hint"])]
    pub off: bool,
}

/// What a process does.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Hint {
    /// It computes
    Cpu,
    /// It is busy with files, terminals and sockets
    Io,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// What `tern run` does.
pub const RUN_ABOUT: &str = "Run a program on another node as if it ran here";
/// What its exit status means.
pub const RUN_HELP: &str = "\
Exit status: the program's own (128 plus the signal's number is the shell's word for a program that a signal ended; tern run is ended by the
same signal). 127: the program was not found. 126: it cannot be executed. 125: tern itself failed, with a message on standard error.";

/// How results are shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What a new node is told about itself.
#[derive(Clone, Debug, Args)]
pub struct Node {
    /// Name of this node: a-z, 0-9 and -; the host's name if absent
    #[arg(long)]
    pub name: Option<NodeName>,
    /// Address (and port) at which ternd listens and others reach it; found out if absent, where that is plain
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address)]
    pub addr: Option<SocketAddr>,
    /// Host no programs of other nodes (later: `tern policy set guests=on`)
    #[arg(long)]
    pub no_guests: bool,
    /// Go on as the daemon
    #[arg(long)]
    pub daemon: bool,
    /// Start the daemon in the background, and wait until it serves
    #[arg(long, conflicts_with = "daemon")]
    pub detach: bool,
}

/// `tern init`
#[derive(Clone, Debug, Args)]
pub struct Init {
    /// This node
    #[command(flatten)]
    pub node: Node,
}

/// `tern join`
#[derive(Clone, Debug, Args)]
pub struct Join {
    /// What `tern invite` printed; `-` reads it from standard input
    pub token: String,
    /// This node
    #[command(flatten)]
    pub node: Node,
}

/// `tern invite`
#[derive(Clone, Debug, Args)]
pub struct Invite {
    /// Minutes for which the invitation is valid
    #[arg(long, default_value_t = 60)]
    pub minutes: u64,
    /// How many invitations
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub count: u32,
    /// The new node does not get the authority's key: it cannot invite, nor make certificates in other nodes' names
    #[arg(long)]
    pub without_authority: bool,
    /// The new node is a daemon on this very machine, which listens at a loopback address
    #[arg(long)]
    pub loopback: bool,
    /// How to show them
    #[command(flatten)]
    pub output: Output,
}

/// `tern run`
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Node to run it on, `home` for this one; the best one if absent, this one among them (`tern policy set home=off`)
    #[arg(long, value_name = "NODE")]
    pub on: Option<String>,
    /// With --on: the policy may move it on from there
    #[arg(long, requires = "on")]
    pub movable: bool,
    /// With --on: the CPU there may lack features that this one has. For programs that look for them when they start, and not ones built for this very CPU
    #[arg(long, requires = "on")]
    pub any_cpu: bool,
    /// Root's processes, too: the node gets root's rights over this one's files (for good: `tern policy set root-on=NODE`)
    #[arg(long)]
    pub as_root: bool,
    /// With --on: also where memory is short. Others there may be killed for want of it
    #[arg(long, requires = "on")]
    pub force: bool,
    /// A process that must go home, for what home alone can do, ends instead, with status 125 and the reason
    #[arg(long)]
    pub strict: bool,
    /// Do not say on standard error that a process came home (the first one does)
    #[arg(long, env = "TERN_QUIET", value_parser = clap::builder::FalseyValueParser::new())]
    pub quiet: bool,
    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `ADDR`, `ADDR:PORT` or `[ADDR]:PORT`.
///
/// # Errors
/// If it is neither.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse::<SocketAddr>()
        .or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, ctl::paths::PORT)))
        .map_err(|_| "an IP address, or ADDR:PORT, is expected".into())
}

/// `tern move`
#[derive(Clone, Debug, clap::Args)]
pub struct Move {
    /// Do not say on standard error that the process stood still for over a second
    #[arg(long, env = "TERN_QUIET", value_parser = clap::builder::FalseyValueParser::new())]
    pub quiet: bool,
    /// PID at home
    pub pid: i32,
    /// Node; `home` brings it back
    pub node: String,
    /// How its memory goes: auto (what keeps to --max-freeze), stop (while it stands still), pre (while it runs; what it writes goes again; from home only), post (it
    /// runs there at once, and its memory follows), flush (from a node: to home's memory while it stands still, so that the node is free; from there as post)
    #[arg(long, value_enum, default_value_t = HowArg::Auto)]
    pub how: HowArg,
    /// Also to a node whose CPU lacks something that this one has: for programs that have not looked for it, or have looked on a lesser one
    #[arg(long)]
    pub any_cpu: bool,
    /// From a node to another by way of home, and not straight there
    #[arg(long)]
    pub by_home: bool,
    /// Root's processes, too: the node gets root's rights over this one's files (for good: `tern policy set root-on=NODE`)
    #[arg(long)]
    pub as_root: bool,
    /// Also where memory, descriptors or processes are short for it. It, or others there, may be killed for want of memory
    #[arg(long)]
    pub force: bool,
    /// For how long it may stand still, as 50ms, 0.5s: what auto and pre aim at
    #[arg(long, value_parser = duration_us, default_value = "100ms")]
    pub max_freeze: u64,
    /// Bytes that its memory may take of the link each second, as 500k, 100M, 1G (powers of 1000)
    #[arg(long, value_parser = rate)]
    pub rate: Option<u64>,
    /// Bytes of its memory that go at once, from 1k to 1M (powers of 1024); without it as many as the link takes in 10 ms, from 32k to 512k
    #[arg(long, value_parser = ctl::moves::parse_buffer)]
    pub buffer: Option<u64>,
    /// Say each second how far it is, also where standard error is no terminal: one JSON object a line
    #[arg(long)]
    pub progress: bool,
    /// Say what took how long
    #[command(flatten)]
    pub output: Output,
}

/// `--how`
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HowArg {
    /// What keeps to the bound
    Auto,
    /// Stop-and-copy
    Stop,
    /// Pre-copy
    Pre,
    /// Post-copy
    Post,
    /// From a node: by way of home's memory
    Flush,
}

impl From<HowArg> for ctl::moves::How {
    fn from(how: HowArg) -> ctl::moves::How {
        match how {
            HowArg::Auto => ctl::moves::How::Auto,
            HowArg::Stop => ctl::moves::How::Stop,
            HowArg::Pre => ctl::moves::How::Pre,
            HowArg::Post => ctl::moves::How::Post,
            HowArg::Flush => ctl::moves::How::Flush,
        }
    }
}

/// A time as `50ms`, `0.5s`, `800us`; microseconds.
pub fn duration_us(text: &str) -> Result<u64, String> {
    const HOUR_US: f64 = 3.6e9;
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let parsed =
        units.into_iter().find_map(|(unit, us)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * us));
    match parsed {
        Some(us) if (1.0..=HOUR_US).contains(&us) => Ok(us as u64),
        _ => Err("a time from 1us to 3600s, as 50ms or 0.5s".into()),
    }
}

/// Bytes each second as `500k`, `100M`, `1.5G`.
pub fn rate(text: &str) -> Result<u64, String> {
    const LEAST: f64 = 1e5;
    const MOST: f64 = 1e12;
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let parsed =
        units.into_iter().find_map(|(unit, bytes)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * bytes));
    match parsed {
        Some(bytes) if (LEAST..=MOST).contains(&bytes) => Ok(bytes as u64),
        _ => Err("bytes each second from 100k to 1000G, as 500k or 100M".into()),
    }
}

#[cfg(test)]
mod duration_tests {
    use super::{duration_us, rate};

    #[test]
    fn rates_have_units_and_bounds() {
        assert_eq!(["500k", "100M", "1.5G"].map(rate), [Ok(500_000), Ok(100_000_000), Ok(1_500_000_000)]);
        for bad in ["5", "100", "M", "-1M", "99k", "2000G", "NaNM", "1 M", "infG", "", "5m"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(["50ms", "0.5s", "800us"].map(duration_us), [Ok(50_000), Ok(500_000), Ok(800)]);
        for bad in ["50", "ms", "-1ms", "0ms", "1e9s", "NaNs", "5 min", ""] {
            assert!(duration_us(bad).is_err(), "{bad}");
        }
    }
}
