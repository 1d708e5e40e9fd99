//! The command line of the tool.

mod builds;
mod copy;
mod job;
mod kill;
mod moving;
mod nodes;
mod power;
mod sh;
mod trace;
mod usage;
mod why;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use control_protocol::guests::Whom;
use identity::NodeName;

pub use builds::{MAKE_HELP, Make, SPREAD_HELP, Shell, Spread, SpreadOptions};
pub use copy::{COPY_HELP, Copy, Place};
pub use job::{JOB_HELP, JobAction, JobAdopt, JobKill, JobRun, JobWait, OneJob};
pub use kill::{KILL_HELP, Kill};
pub use moving::MoveArgs;
pub use nodes::NodeList;
pub use power::{POWER_HELP, Power};
pub use sh::{SH_HELP, Sh};
pub use trace::{TRACE_HELP, Trace};
pub use usage::{Usage, UsageBy};
pub use why::Why;

/// The directories of a node.
#[derive(Clone, Debug, Args)]
pub struct Dirs {
    /// Directory with the identity of this node
    #[arg(long, global = true, env = control_protocol::paths::STATE_ENV, default_value = identity::DEFAULT_DIR, value_name = "DIR")]
    pub state: PathBuf,
    /// Directory of sockets and logs
    #[arg(long, global = true, env = control_protocol::paths::RUN_ENV, default_value = control_protocol::paths::RUN_DIR, value_name = "DIR")]
    pub run_dir: PathBuf,
    /// Time after which the tool gives up on a silent ternd, such as 500ms or 60s (a move reports
    /// its progress each second)
    #[arg(long, global = true, env = "TERN_TIMEOUT", value_parser = timeout, default_value = "60s", value_name = "TIME")]
    pub timeout: Duration,
}

impl Dirs {
    /// Reads the environment alone: for programs that tern starts.
    pub fn from_environment() -> Dirs {
        let path = |name: &str, default: &str| std::env::var_os(name).map_or_else(|| default.into(), PathBuf::from);
        let named = std::env::var("TERN_TIMEOUT").ok().and_then(|text| timeout(&text).ok());
        Dirs {
            state: path(control_protocol::paths::STATE_ENV, identity::DEFAULT_DIR),
            run_dir: path(control_protocol::paths::RUN_ENV, control_protocol::paths::RUN_DIR),
            timeout: named.unwrap_or(Duration::from_secs(60)),
        }
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    duration_us(text).map(Duration::from_micros)
}

/// The commands of the tool.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Make a cluster with this machine as its first node
    Init(Init),
    /// Make one-time invitations for machines to join
    Invite(Invite),
    /// Join a cluster with an invitation
    Join(Join),
    /// Leave the cluster: bring the processes of this home back, send guests home, tell the other
    /// nodes, forget this node's identity, and end ternd
    Leave {
        /// End the processes that cannot go home; if no ternd runs, forget the identity without
        /// telling the other nodes
        #[arg(long)]
        force: bool,
    },
    /// List the nodes, or say who of this home may use them
    Nodes(NodeList),
    /// List the processes that were started here and run on other nodes; for root also the guests
    Ps(Output),
    /// Send a signal to processes that were started here and run on other nodes
    #[command(after_help = KILL_HELP)]
    Kill(Kill),
    /// List the guests: processes of other homes that run on this node
    Guests(Output),
    /// Send guests home, whoever moved them here (permanently: `tern policy set guests=off`)
    Evict(Evict),
    /// Get hosts for a program, or give them back
    Hosts {
        /// The question or order
        #[command(subcommand)]
        what: Hosts,
    },
    /// Send all guests away from a node, the quickest first, and take no more: another node with a
    /// free processor, or home, takes them. Exit status 1 if one stays
    Drain(Drain),
    /// Take guests again after `tern drain`
    Undrain {
        /// The node; the default is this one
        node: Option<String>,
    },
    /// Say that this machine will be taken away soon, as clouds do with spot instances: drains it,
    /// and names the processes of this home that end with it
    Notice {
        /// Time until the machine goes, such as 30s or 2m
        #[arg(long = "in", value_name = "TIME", value_parser = seconds)]
        by_s: u32,
        /// How to show the result
        #[command(flatten)]
        output: Output,
    },
    /// Say that this machine will not answer for a while, for it sleeps or is unplugged: processes
    /// of this home that run elsewhere stand still, and are waited for
    Suspend(Suspend),
    /// Say that this machine is there again after `tern suspend`: its processes go on
    Resume(Output),
    /// Say that you are at this machine: with `accept=idle`, guests leave as at the first key
    Back(Back),
    /// Say that nobody is at this machine: with `accept=idle` it takes guests at once, until the
    /// next input
    Away,
    /// Tell why a process runs where it does, what happened to it, and what was refused
    Why(Why),
    /// Count the system calls of a process that is away, with their time, and where each was served
    #[command(after_help = TRACE_HELP)]
    Trace(Trace),
    /// Run a program on another node
    #[command(about = RUN_ABOUT, after_help = RUN_HELP)]
    Run(Run),
    /// Run a command on one node or many, with each node's own files and network (node-local mode)
    #[command(after_help = SH_HELP)]
    Sh(Sh),
    /// Copy files to nodes, or from them, by the nodes' own files
    #[command(after_help = COPY_HELP)]
    Cp(Copy),
    /// Power nodes off, after their guests have left
    #[command(after_help = POWER_HELP)]
    Halt(Power),
    /// Start nodes again, after their guests have left
    #[command(after_help = POWER_HELP)]
    Reboot(Power),
    /// Run GNU make with jobs on idle hosts
    #[command(after_help = MAKE_HELP)]
    Make(Make),
    /// Run a command (ninja, cargo, a script, xargs -P) whose programs run on idle hosts if it is
    /// worth it
    #[command(after_help = SPREAD_HELP)]
    Spread(Spread),
    /// Run a shell whose background jobs go to idle hosts
    Shell(Shell),
    /// Start, list, signal and stop jobs: processes that belong together
    #[command(after_help = JOB_HELP)]
    Job {
        /// The order about jobs
        #[command(subcommand)]
        action: JobAction,
    },
    /// Move a running process to a node, or home
    Move(MoveArgs),
    /// Test this machine, or whether programs of this node can run on NODE
    Doctor {
        /// Node to test instead of this machine
        node: Option<String>,
        /// How to show the findings
        #[command(flatten)]
        output: Output,
    },
    /// Show ternd's log, the policy's decisions, or evictions
    Log {
        /// Number of lines to show
        #[arg(short = 'n', long, default_value_t = 100)]
        lines: u32,
        /// Show the policy's decisions with all their inputs, one JSON object a line, for `tern
        /// replay`
        #[arg(long)]
        decisions: bool,
        /// Show guests that were sent away from here, and processes of this home that nodes sent
        /// away
        #[arg(long, conflicts_with = "decisions")]
        evictions: bool,
        /// With --evictions: print one JSON object a line
        #[arg(long, requires = "evictions")]
        json: bool,
    },
    /// Show or set how this node decides where processes run
    Policy {
        /// The action on the settings
        #[command(subcommand)]
        what: Policy,
    },
    /// Set what the policy may do with a process
    Pin(Pin),
    /// Make the decisions of a log again, and tell whether the results are the same
    Replay {
        /// File with the output of `tern log --decisions`; `-` reads standard input
        file: PathBuf,
        /// How to show the result
        #[command(flatten)]
        output: Output,
    },
    /// Show what users of this home have used, here and on other nodes, and how this machine spent
    /// its time
    Usage(Usage),
    /// Show the state of the local ternd
    Status(Output),
    /// Show the version
    Version(Output),
}

/// The actions of `tern hosts`.
#[derive(Clone, Debug, Subcommand)]
pub enum Hosts {
    /// List the programs of this home that hold hosts
    List(Output),
    /// Get hosts, those first that nobody has used for longest, and print their names. They are
    /// kept until the holder ends, gives them back, or others have less than their share. Exit
    /// status 1 if there is none
    Request {
        /// Number of hosts that the holder wants in all
        count: u32,
        /// For a process that runs for long: the host is shared with a holder of short ones
        #[arg(long)]
        long: bool,
        /// PID of the program that holds them; the default is the shell that gives the command
        #[arg(long, value_name = "PID")]
        holder: Option<i32>,
        /// How to show the result
        #[command(flatten)]
        output: Output,
    },
    /// Give hosts back
    Release {
        /// Names of the hosts; the default is all of them
        hosts: Vec<String>,
        /// PID of the program that holds them; the default is the shell that gives the command
        #[arg(long, value_name = "PID")]
        holder: Option<i32>,
        /// How to show what is left
        #[command(flatten)]
        output: Output,
    },
}

/// The arguments of `tern drain`.
#[derive(Clone, Debug, Args)]
pub struct Drain {
    /// The node, whose owner must allow that (there: `tern policy set drain-by=`); the default is
    /// this one
    pub node: Option<String>,
    /// Time after which nobody begins to leave, such as 30s or 2m
    #[arg(long = "by", value_name = "TIME", value_parser = seconds)]
    pub by_s: Option<u32>,
    /// Show who would go where, and do nothing
    #[arg(long)]
    pub plan: bool,
    /// Do nothing unless systemd shuts this machine down (for the unit of ternd)
    #[arg(long, conflicts_with = "plan")]
    pub if_shutting_down: bool,
    /// How to show the result
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `tern suspend`.
#[derive(Clone, Debug, Args)]
pub struct Suspend {
    /// Time after which processes elsewhere end if this machine is not back, such as 20m or 12h;
    /// the default is `suspend_max_ms` of the policy
    #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
    pub for_s: Option<u32>,
    /// How to show the result
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `tern back`.
#[derive(Clone, Debug, Args)]
pub struct Back {
    /// Time for which you are there even without input, such as 90s, 20m or 2h
    #[arg(long = "for", value_name = "TIME", value_parser = seconds, default_value = "0s")]
    pub for_s: u32,
}

/// The arguments of `tern evict`.
#[derive(Clone, Debug, Args)]
pub struct Evict {
    /// PID on this machine, as listed by `tern guests`; the name of a home; or `all`
    #[arg(value_name = "PID|HOME|all")]
    pub whom: String,
    /// End the guests that cannot go home
    #[arg(long)]
    pub kill: bool,
    /// How to show the results
    #[command(flatten)]
    pub output: Output,
}

impl Evict {
    /// Gives the guests that the user means.
    pub(crate) fn whom(&self) -> Whom {
        match self.whom.parse() {
            Ok(pid) => Whom::Pid(pid),
            Err(_) if self.whom == "all" => Whom::All,
            Err(_) => Whom::Home(self.whom.clone()),
        }
    }
}

/// The actions of `tern policy`.
#[derive(Clone, Debug, Subcommand)]
pub enum Policy {
    /// Show all settings
    Show(Output),
    /// Change settings: either all that are named or none. `scope=` may be given several times:
    /// `started` (what tern started), `users`, `mine` (all processes of the user who gives the
    /// command), `tree:PID` (a process and its descendants), `user:NAME` (root only); `-tree:PID`
    /// and `-user:NAME` remove them again
    Set {
        /// Setting and new value, with a name that `tern policy show` lists
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = assignment)]
        changes: Vec<(String, String)>,
    },
}

/// The arguments of `tern pin`.
#[derive(Clone, Debug, Args)]
pub struct Pin {
    /// PID at home
    pub pid: i32,
    /// Let the process go home whenever home can run it, instead of pinning it
    #[arg(long)]
    pub prefer_home: bool,
    /// Tell what the process does, instead of pinning it
    #[arg(long, value_enum)]
    pub hint: Option<Hint>,
    /// Remove the process's pin, preference and hint
    #[arg(long, conflicts_with_all = ["prefer_home", "hint"])]
    pub off: bool,
}

/// What a process mainly does.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Hint {
    /// Computing, with little input and output
    Cpu,
    /// Input and output: files, terminals and sockets
    Io,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The description of `tern run`.
pub const RUN_ABOUT: &str = "Run a program on another node as if it ran here";
/// The text after the help of `tern run`: the exit status.
pub const RUN_HELP: &str = "\
Exit status: that of the program. If a signal ends the program, the same signal ends tern run (a shell
reports 128 plus its number). 127: the program was not found. 126: the program cannot be executed.
125: tern itself failed, with a message on standard error.";

/// The format of results.
#[derive(Clone, Copy, Debug, Args)]
pub struct Output {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The settings of a new node.
#[derive(Clone, Debug, Args)]
pub struct Node {
    /// Name of this node: a-z, 0-9 and -; the default is the host's name
    #[arg(long)]
    pub name: Option<NodeName>,
    /// Address (and port) at which ternd listens and other nodes reach this node; the default is
    /// the machine's address if it has only one
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address)]
    pub addr: Option<SocketAddr>,
    /// Host no programs of other nodes (change it later: `tern policy set guests=on`)
    #[arg(long)]
    pub no_guests: bool,
    /// Continue as the daemon
    #[arg(long)]
    pub daemon: bool,
    /// Start the daemon in the background, and wait until it serves
    #[arg(long, conflicts_with = "daemon")]
    pub detach: bool,
}

/// The arguments of `tern init`.
#[derive(Clone, Debug, Args)]
pub struct Init {
    /// Settings of this node
    #[command(flatten)]
    pub node: Node,
}

/// The arguments of `tern join`.
#[derive(Clone, Debug, Args)]
pub struct Join {
    /// Token that `tern invite` printed; `-` reads standard input
    pub token: String,
    /// Settings of this node
    #[command(flatten)]
    pub node: Node,
}

/// The arguments of `tern invite`.
#[derive(Clone, Debug, Args)]
pub struct Invite {
    /// Minutes for which the invitation is valid
    #[arg(long, default_value_t = 60)]
    pub minutes: u64,
    /// Number of invitations
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub count: u32,
    /// Do not give the new node the authority's key: it can then neither invite nor make
    /// certificates for other nodes' names
    #[arg(long)]
    pub without_authority: bool,
    /// The new node is a daemon on this machine that listens at a loopback address
    #[arg(long)]
    pub loopback: bool,
    /// How to show the invitations
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `tern run`.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Node to run on; `home` is this node; `idle`, `+1`, `@GROUP` as for `tern sh`; the default is
    /// the best node, possibly this one (see `tern policy set home=off`)
    #[arg(long, value_name = "NODE")]
    pub on: Option<String>,
    /// With --on: the program uses the node's own files, network, host name and devices, as far as
    /// everybody may there; the program, its libraries and its arguments come from home (the node's
    /// owner allows it: `tern policy set local-by=NODE`)
    #[arg(long, requires = "on", conflicts_with = "movable")]
    pub local: bool,
    /// With --on: the policy may move the process to another node later
    #[arg(long, requires = "on")]
    pub movable: bool,
    /// With --on: allow a node whose CPU lacks features of this one (for programs that test for
    /// features when they start, not for programs built for this very CPU)
    #[arg(long, requires = "on")]
    pub any_cpu: bool,
    /// Allow processes of root; the node then gets root's rights over this node's files
    /// (permanently: `tern policy set root-on=NODE`)
    #[arg(long)]
    pub as_root: bool,
    /// With --on: run there even if memory is short; the kernel may kill processes there for want
    /// of it
    #[arg(long, requires = "on")]
    pub force: bool,
    /// Run the program in this mode of coscheduling, with all its descendants, wherever they are:
    /// spin, mxi, mxispin, prio, priospin, explicit, dynamic or sdca (`tern cosched --help`)
    #[arg(long, value_name = "MODE")]
    pub cosched: Option<String>,
    /// End a process that would have to go home for something only home can do, with status 125 and
    /// the reason
    #[arg(long)]
    pub strict: bool,
    /// Do not report on standard error that a process came home (by default the first one is
    /// reported)
    #[arg(long, env = "TERN_QUIET", value_parser = clap::builder::FalseyValueParser::new())]
    pub quiet: bool,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Parses `ADDR`, `ADDR:PORT` or `[ADDR]:PORT`.
///
/// # Errors
/// The text is none of these.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse::<SocketAddr>()
        .or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, control_protocol::paths::PORT)))
        .map_err(|_| "an IP address, or ADDR:PORT, is expected".into())
}

/// Parses a time such as `50ms`, `0.5s` or `800us`. Gives microseconds.
///
/// # Errors
/// The text has no such form, or exceeds an hour.
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

/// Parses a time such as `30s`, `20m` or `2h`. Gives seconds.
///
/// # Errors
/// The text has no such form, or exceeds a day.
pub fn seconds(text: &str) -> Result<u32, String> {
    const DAY_S: u32 = 86_400;
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let parsed = units.into_iter().find_map(|(unit, s)| text.strip_suffix(unit)?.parse::<u32>().ok()?.checked_mul(s));
    parsed.filter(|s| *s <= DAY_S).ok_or_else(|| "a time from 0s to 24h, as 30s, 20m or 2h".into())
}

/// Parses a rate such as `500k`, `100M` or `1.5G`. Gives bytes per second.
///
/// # Errors
/// The text has no such form, or is out of range.
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
    use super::{duration_us, rate, seconds};

    #[test]
    fn rates_have_units_and_bounds() {
        assert_eq!(["500k", "100M", "1.5G"].map(rate), [Ok(500_000), Ok(100_000_000), Ok(1_500_000_000)]);
        for bad in ["5", "100", "M", "-1M", "99k", "2000G", "NaNM", "1 M", "infG", "", "5m"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_have_units_and_bounds() {
        assert_eq!(["0s", "90s", "20m", "24h"].map(seconds), [Ok(0), Ok(90), Ok(1200), Ok(86_400)]);
        for bad in ["30", "s", "-1s", "1.5h", "25h", "4294967295h", "5 m", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
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
