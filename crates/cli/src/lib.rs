//! The user's tool: arguments, requests to the local daemon, output.
//!
//! The crate depends neither on `os` nor on `node`. The binary passes in what needs them
//! ([`Host`]).

mod address;
mod args;
mod client;
mod copy;
mod drain;
mod error;
mod evict;
mod hosts;
mod job;
mod join;
mod kill;
mod moving;
mod nodes;
mod policy;
mod power;
mod run;
mod sh;
mod show;
mod spread;
mod suspension;
mod trace;
mod usage;

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::OwnedFd;

use control_protocol::address::Reach;
use control_protocol::coscheduling::{JobOnNode, JobOrder};
use control_protocol::facts::{Finding, Grade};
use control_protocol::power::PowerOrder;
use control_protocol::queues::RoomQueues;
use control_protocol::sampling::{Sampled, Sampling};
use control_protocol::steward::Program;
use control_protocol::tool::{Answer, PresenceWord, Request};
use serde::Serialize;

pub use args::{Command, Dirs, Output, RUN_ABOUT, RUN_HELP, Run, address, seconds};
pub use copy::{PACK_ROLE, UNPACK_ROLE, role as copy_role};
pub use error::Error;
pub use run::Environment;
pub use spread::job;

/// Functions that the binary lends to the tool.
#[derive(Clone, Copy)]
pub struct Host {
    /// Probes this machine's kernel.
    pub probe: fn() -> Vec<Finding>,
    /// Restores the signals and descriptors with which this program was started, where its runtime
    /// changed them.
    pub restore_inheritance: fn(),
    /// Makes the first SIGINT make this descriptor readable. The second ends this program as usual.
    pub interrupts: fn() -> std::io::Result<OwnedFd>,
    /// Tells whether only this machine can execute this file for the calling user.
    pub begins_at_home: fn(&std::path::Path) -> bool,
    /// Makes a child that stands for this process, which has no other thread; it dies with this
    /// process, if that is said.
    pub begin_job: fn(bool) -> std::io::Result<Begun>,
    /// Makes this process and its descendants a job that is coscheduled by a mode. Gives the
    /// environment that the program needs for that.
    pub begin_coscheduled: fn(&Dirs, &str) -> Result<Environment, String>,
    /// Turns this process into the deputy of the program, at the end of the socket.
    pub become_deputy: fn(OwnedFd, &Program) -> !,
    /// Finds the address at which other nodes reach this machine.
    pub own_address: fn() -> Reach,
    /// Continues as the daemon. Gives the exit status.
    pub become_daemon: fn(&Dirs) -> u8,
    /// Starts the daemon in the background, and waits until it serves. Gives the exit status.
    pub detach_daemon: fn(&Dirs) -> u8,
    /// Ends the membership of a machine without a daemon, and its rooms.
    pub abandon: fn(&Dirs) -> Result<(), String>,
}

/// Which of two processes this is.
pub enum Begun {
    /// The new process.
    Child,
    /// The parent: waits for the child's end when called, and passes signals on meanwhile.
    Parent(Box<dyn FnOnce() -> std::io::Result<Ended>>),
}

/// How a child ended.
pub struct Ended {
    /// The child ended with status 0.
    pub success: bool,
    /// CPU time of it and its children, used here, microseconds.
    pub cpu_us: u64,
    /// Ends this process by the signal that ended the child, or gives the child's exit status.
    pub end: Box<dyn FnOnce() -> u8>,
}

/// Runs a command and prints errors. Gives the exit status.
pub fn main(command: &Command, dirs: &Dirs, host: Host) -> u8 {
    match execute(command, dirs, host) {
        Ok(status) => status,
        Err(e) => {
            e.print();
            e.status(is_for_a_command(command))
        }
    }
}

/// Tells whether the exit status is that of a command which tern runs, as with env(1).
fn is_for_a_command(command: &Command) -> bool {
    match command {
        Command::Job { action } => matches!(action, args::JobAction::Run(_)),
        command => matches!(command, Command::Run(_) | Command::Sh(_) | Command::Spread(_)),
    }
}

fn execute(command: &Command, dirs: &Dirs, host: Host) -> Result<u8, Error> {
    match command {
        Command::Run(args) => {
            (host.restore_inheritance)();
            let added = match &args.cosched {
                Some(mode) => (host.begin_coscheduled)(dirs, mode).map_err(|reason| Error::Coscheduling { reason })?,
                None => Vec::new(),
            };
            let (channel, program) = run::place(dirs, args, added, host.begins_at_home)?;
            (host.become_deputy)(channel, &program)
        }
        Command::Sh(args) => sh::sh(dirs, args, host),
        Command::Cp(args) => copy::copy(dirs, args),
        Command::Halt(args) => power::power(dirs, args, PowerOrder::Halt),
        Command::Reboot(args) => power::power(dirs, args, PowerOrder::Reboot),
        Command::Init(args) => init(dirs, args, host),
        Command::Join(args) => {
            let identity = join::join(&dirs.state, args)?;
            print(&format!("node {} has joined cluster {}\n", identity.node(), identity.about().cluster));
            Ok(go_on(dirs, &args.node, host))
        }
        Command::Invite(args) => invite(dirs, args),
        Command::Leave { force } => evict::leave(dirs, *force, host).map(|()| 0),
        Command::Nodes(args) => match &args.nodes {
            Some(nodes) => nodes::set(dirs, nodes, &args.set).map(|()| 0),
            None => list_nodes(dirs, args.output),
        },
        Command::Ps(output) => ps(dirs, *output),
        Command::Kill(args) => kill::kill(dirs, args),
        Command::Guests(output) => evict::guests(dirs).map(|guests| evict::print(*output, &guests)),
        Command::Evict(args) => evict::evict(dirs, args),
        Command::Hosts { what } => hosts::hosts(dirs, what),
        Command::Drain(args) => drain::drain(dirs, args),
        Command::Undrain { node } => drain::undrain(dirs, node.as_deref()).map(|()| 0),
        Command::Notice { by_s, output } => drain::notice(dirs, *by_s, *output),
        Command::Suspend(args) => suspension::suspend(dirs, args),
        Command::Resume(output) => suspension::resume(dirs, *output),
        Command::Back(args) => say_presence(dirs, PresenceWord::Back { for_s: args.for_s }),
        Command::Away => say_presence(dirs, PresenceWord::Away),
        Command::Why(args) => why(dirs, args),
        Command::Trace(args) => trace::trace(dirs, args, host),
        Command::Make(args) => spread::make(dirs, args, host),
        Command::Spread(args) => spread::spread(dirs, args, host),
        Command::Shell(args) => spread::shell(dirs, args, host),
        Command::Job { action } => job::job(dirs, action, host),
        Command::Move(args) => {
            let legs = moving::relocate(dirs, args, host)?;
            Ok(show(args.output, &legs, String::new))
        }
        Command::Doctor { node: None, output } => Ok(examined(*output, &(host.probe)())),
        Command::Doctor { node: Some(node), output } => examine(dirs, node, *output),
        Command::Policy { what: args::Policy::Show(output) } => {
            let rows = policy::settings(dirs)?;
            Ok(show(*output, &rows, || policy::shown(&rows)))
        }
        Command::Policy { what: args::Policy::Set { changes } } => policy::set(dirs, changes).map(|()| 0),
        Command::Pin(args) => policy::pin(dirs, args).map(|()| 0),
        Command::Replay { file, output } => policy::replay(file, *output),
        Command::Log { lines, evictions: true, json, .. } => evict::log(dirs, *lines, *json),
        Command::Log { lines, decisions: true, .. } => log(dirs, &Request::Decisions { lines: *lines }),
        Command::Log { lines, .. } => log(dirs, &Request::Log { lines: *lines }),
        Command::Usage(args) => usage::usage(dirs, args),
        Command::Status(output) => status(dirs, *output),
        Command::Version(output) => {
            let version = Version { version: env!("CARGO_PKG_VERSION"), protocol: control_protocol::codec::VERSION };
            Ok(show(*output, &version, || format!("tern {} (protocol {})\n", version.version, version.protocol)))
        }
    }
}

fn init(dirs: &Dirs, args: &args::Init, host: Host) -> Result<u8, Error> {
    let (identity, address) = join::init(&dirs.state, &args.node, host)?;
    let (node, cluster) = (identity.node(), &identity.about().cluster);
    print(&format!("node {node} at {address} is the first of cluster {cluster}\n"));
    Ok(go_on(dirs, &args.node, host))
}

fn list_nodes(dirs: &Dirs, output: Output) -> Result<u8, Error> {
    match client::ask(dirs, &Request::Nodes)? {
        Answer::Nodes(rows) => Ok(show(output, &NodesJson::from(rows.as_slice()), || show::nodes(&rows))),
        _ => Err(client::unexpected()),
    }
}

fn say_presence(dirs: &Dirs, word: PresenceWord) -> Result<u8, Error> {
    policy::done(client::ask(dirs, &Request::Presence(word))?).map(|()| 0)
}

fn why(dirs: &Dirs, args: &args::Why) -> Result<u8, Error> {
    match client::ask(dirs, &Request::Why { pid: args.pid, to: args.node.clone() })? {
        Answer::Why(report) => Ok(show(args.output, &report, || show::why(&report))),
        _ => Err(client::unexpected()),
    }
}

fn examine(dirs: &Dirs, node: &str, output: Output) -> Result<u8, Error> {
    match client::ask(dirs, &Request::Doctor { node: node.to_owned() })? {
        Answer::Findings(findings) => Ok(examined(output, &findings)),
        _ => Err(client::unexpected()),
    }
}

fn log(dirs: &Dirs, request: &Request) -> Result<u8, Error> {
    match client::ask(dirs, request)? {
        Answer::Log { lines } => Ok(print_lines(&lines)),
        _ => Err(client::unexpected()),
    }
}

fn status(dirs: &Dirs, output: Output) -> Result<u8, Error> {
    let Answer::Status(s) = client::ask(dirs, &Request::Status)? else {
        return Err(client::unexpected());
    };
    Ok(show(output, &s, || {
        format!(
            "node {} of cluster {} at {}: ternd {}, PID {}\n\
             {} of {} nodes alive, {} rooms away, {} hosted, {} processes moved by the policy\n",
            s.node, s.cluster, s.address, s.version, s.pid, s.alive, s.known, s.rooms_away, s.rooms_hosted, s.moved
        )
    }))
}

fn invite(dirs: &Dirs, args: &args::Invite) -> Result<u8, Error> {
    let request = Request::Invite {
        valid_s: args.minutes.saturating_mul(60),
        count: args.count,
        authority: !args.without_authority,
        loopback: args.loopback,
    };
    match client::ask(dirs, &request)? {
        Answer::Invited { tokens, expires_s } => {
            if !args.output.json && std::io::stderr().is_terminal() {
                eprintln!(
                    "valid once, for {} minutes; on the new machine, as root: tern join TOKEN --detach",
                    args.minutes
                );
            }
            let json = Invited { tokens: &tokens, expires_s };
            Ok(show(args.output, &json, || tokens.iter().map(|t| format!("{t}\n")).collect()))
        }
        _ => Err(client::unexpected()),
    }
}

/// Asks ternd where messages of processes wait that are away, for `tern netmon`.
///
/// # Errors
/// The daemon refuses, or does not answer.
pub fn queues(dirs: &Dirs) -> Result<Vec<RoomQueues>, Error> {
    match client::ask(dirs, &Request::Queues)? {
        Answer::Queues(rooms) => Ok(rooms),
        _ => Err(client::unexpected()),
    }
}

/// Lists the living nodes but this one, for `tern netmon --all`.
///
/// # Errors
/// The daemon does not answer.
pub fn other_nodes(dirs: &Dirs) -> Result<Vec<String>, Error> {
    match client::ask(dirs, &Request::Nodes)? {
        Answer::Nodes(rows) => Ok(rows.into_iter().filter(|row| row.alive && !row.here).map(|row| row.name).collect()),
        _ => Err(client::unexpected()),
    }
}

/// Has another node sample its queues, for `tern netmon --all`.
///
/// # Errors
/// The node does not allow that, or does not answer.
pub fn sample(dirs: &Dirs, node: &str, sampling: Sampling) -> Result<Sampled, Error> {
    match client::ask(dirs, &Request::Sample { node: node.into(), sampling })? {
        Answer::Sampled(sampled) => Ok(sampled),
        _ => Err(client::unexpected()),
    }
}

/// Has the nodes that host tasks of a job coschedule them, for the agent of `tern cosched`.
///
/// # Errors
/// The daemon does not answer.
pub fn coschedule(dirs: &Dirs, order: &JobOrder) -> Result<Vec<JobOnNode>, Error> {
    match client::ask(dirs, &Request::Coschedule(order.clone()))? {
        Answer::Coscheduled(nodes) => Ok(nodes),
        _ => Err(client::unexpected()),
    }
}

fn ps(dirs: &Dirs, output: Output) -> Result<u8, Error> {
    let Answer::Ps { rows, failures, guests } = client::ask(dirs, &Request::Ps)? else {
        return Err(client::unexpected());
    };
    failures.iter().for_each(|f| eprintln!("tern: {f}"));
    let both: Vec<PsJson<'_>> = rows.iter().map(PsJson::Away).chain(guests.iter().map(PsJson::Guest)).collect();
    let status = show(output, &both, || {
        let of_others = if guests.is_empty() { String::new() } else { format!("\n{}", evict::table(&guests)) };
        show::ps(&rows) + &of_others
    });
    Ok(if failures.is_empty() { status } else { 1 })
}

/// Ends after `init` or `join`, or continues as the daemon.
fn go_on(dirs: &Dirs, node: &args::Node, host: Host) -> u8 {
    match (node.daemon, node.detach) {
        (true, _) => (host.become_daemon)(dirs),
        (false, true) => (host.detach_daemon)(dirs),
        (false, false) => {
            if std::io::stderr().is_terminal() {
                eprintln!("next, as root: {}", error::START);
            }
            0
        }
    }
}

/// An entry of `tern ps`; guests have a `home`.
#[derive(Serialize)]
#[serde(untagged)]
enum PsJson<'a> {
    Away(&'a control_protocol::tool::PsRow),
    Guest(&'a control_protocol::guests::HostedGuest),
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    protocol: u8,
}

#[derive(Serialize)]
struct Invited<'a> {
    tokens: &'a [String],
    expires_s: u64,
}

#[derive(Serialize)]
#[serde(transparent)]
struct NodesJson<'a>(Vec<NodeJson<'a>>);

#[derive(Serialize)]
struct NodeJson<'a> {
    name: &'a str,
    address: &'a str,
    state: &'static str,
    here: bool,
    availability: Option<control_protocol::facts::Availability>,
    unused_s: Option<u32>,
    load: Option<&'a control_protocol::facts::Load>,
    load_age_ms: Option<u64>,
    suspended: Option<control_protocol::tool::Suspension>,
    rights: control_protocol::rights::NodeRights,
    group: Option<&'a str>,
}

impl<'a> From<&'a [control_protocol::tool::NodeRow]> for NodesJson<'a> {
    fn from(rows: &'a [control_protocol::tool::NodeRow]) -> Self {
        let row = |r: &'a control_protocol::tool::NodeRow| NodeJson {
            name: &r.name,
            address: &r.address,
            state: show::state(r),
            here: r.here,
            availability: r.load.filter(|_| r.alive).map(|(l, _)| l.availability),
            unused_s: r.load.filter(|_| r.alive).map(|(l, _)| l.unused_s),
            load: r.load.as_ref().map(|(l, _)| l),
            load_age_ms: r.load.map(|(_, age)| age),
            suspended: r.suspended,
            rights: r.rights,
            group: r.group.as_deref(),
        };
        NodesJson(rows.iter().map(row).collect())
    }
}

fn examined(output: Output, findings: &[Finding]) -> u8 {
    let status = show(output, &findings, || show::findings(findings));
    if findings.iter().any(|f| f.grade == Grade::Bad) { 1 } else { status }
}

fn show<T: Serialize>(output: Output, value: &T, text: impl FnOnce() -> String) -> u8 {
    if output.json {
        match serde_json::to_string_pretty(value) {
            Ok(json) => print(&format!("{json}\n")),
            Err(e) => {
                eprintln!("tern: cannot write JSON: {e}");
                return 1;
            }
        }
    } else {
        print(&text());
    }
    0
}

fn print_lines(lines: &[String]) -> u8 {
    print(&lines.iter().map(|l| format!("{l}\n")).collect::<String>());
    0
}

/// Prints text. A closed pipe (`tern nodes | head -1`) is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
