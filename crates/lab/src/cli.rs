//! The commands of `tern lab`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::error::{Context, Error, Result, chain};
use crate::exec::{end_like, run as run_in_node, run_at_switch};
use crate::machine::client;
use crate::options::{LabName, Options, Share, node_index, parse_bits, parse_bytes, parse_delay};
use crate::process::in_network;
use crate::state::{LabState, NodeState, all};
use crate::{cluster, link, teardown, up};

/// Run a cluster in one machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the lab; several labs may be up at once.
    #[arg(long, global = true, env = "TERN_LAB", default_value = "lab")]
    name: LabName,
    #[command(subcommand)]
    command: Command,
}

/// The name that stands for the switch in place of a node.
const SWITCH: &str = "switch";

/// The commands on a lab.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a lab: every node is a set of namespaces; n1 shows this machine, the others are empty
    /// but for tern.
    Up {
        /// Number of nodes.
        #[arg(long, default_value_t = 3)]
        nodes: u32,
        /// CPU limit of each node, in cores (such as 0.5).
        #[arg(long, value_name = "SHARE")]
        cpus: Option<f64>,
        /// CPU limits of single nodes, which take precedence (such as n10-n17=0.03; may be given
        /// several times).
        #[arg(long, value_name = "NODES=SHARE")]
        cpus_of: Vec<Share>,
        /// Factor by which the daemons' policies and the gossip of loads run faster than shipped,
        /// for experiments with short jobs.
        #[arg(long, default_value_t = 1, value_name = "N")]
        pace: u32,
        /// Memory limit of each node (such as 512M).
        #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
        mem: Option<u64>,
        /// Bandwidth of each node's link, in each direction, bits per second (such as 100M).
        #[arg(long, value_name = "BITS/S", value_parser = parse_bits)]
        rate: Option<u64>,
        /// Use two bridges, one for odd and one for even nodes, joined by a link of this bandwidth
        /// in each direction, bits per second (such as 1G).
        #[arg(long, value_name = "BITS/S", value_parser = parse_bits)]
        trunk: Option<u64>,
        /// One-way delay between any two nodes, milliseconds.
        #[arg(long, value_name = "MS", value_parser = parse_delay)]
        delay: Option<u64>,
        /// Node that carries made-up /etc/passwd, libraries and programs, like another machine (may
        /// be given several times).
        #[arg(long, value_name = "NODE")]
        foreign: Vec<String>,
        /// Have all nodes show this machine's programs, as n1 does, like machines with the same
        /// packages installed.
        #[arg(long)]
        whole: bool,
        /// Give each node a twentieth of each processor for processes with real-time priority,
        /// where control groups would have none; at most 18 nodes of a machine get it.
        #[arg(long)]
        real_time: bool,
        /// Number of additional nodes that are virtual machines (QEMU without KVM): Debian's stock
        /// kernel, a CPU without AVX2, and a clock that is 3 s ahead. Needs qemu-system-x86; the
        /// kernel's package is fetched on first use, and not installed.
        #[arg(long, value_name = "N", default_value_t = 0)]
        vm: u32,
        /// CPU model of the virtual machines, as QEMU names it.
        #[arg(long, value_name = "MODEL", default_value = crate::machine::CPU)]
        vm_cpu: String,
        /// Nodes that every node trusts with root's processes: all, none, or names with commas
        /// between them. (A lab is one machine with one root. Nodes of a real cluster trust none:
        /// `tern policy set root-on=`.)
        #[arg(long, value_name = "NODES", default_value = "all")]
        root_on: String,
        /// Make only the nodes, without cluster and daemons.
        #[arg(long)]
        bare: bool,
    },
    /// Run a command in a node, and exit with its status.
    Exec {
        /// Name of the node; `switch` stands for this machine's files in the network that joins all
        /// nodes (such as `tcpdump -i lab0`).
        node: String,
        /// The command and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Run a shell in a node that has one (n1).
    Shell {
        /// Name of the node.
        #[arg(default_value = "n1")]
        node: String,
    },
    /// List the labs that are up.
    Status {
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List a directory of a node, which needs no program for that.
    Ls {
        /// Name of the node.
        node: String,
        /// Path of the directory.
        #[arg(default_value = "/")]
        path: PathBuf,
    },
    /// Cut the link between two nodes, or between one node and all others: packets are lost
    /// silently.
    Cut {
        /// Name of a node.
        a: String,
        /// Name of the other node; the default is all others.
        b: Option<String>,
    },
    /// Heal a link that was cut.
    Heal {
        /// Name of a node.
        a: String,
        /// Name of the other node; the default is all others.
        b: Option<String>,
    },
    /// Kill a node's daemon without warning, and start another one.
    Restart {
        /// Name of the node.
        node: String,
        /// Flags of the new daemon
        #[arg(last = true, value_name = "FLAG")]
        flags: Vec<String>,
    },
    /// End the lab and remove everything that belongs to it.
    Down {
        /// End all labs of this machine.
        #[arg(long)]
        all: bool,
    },
}

/// Runs a command of `tern lab`. Gives the exit status: that of the command for `exec` and `shell`,
/// else 0, or 1 after a message on standard error (`exec`: 125 if the node could not be entered,
/// 126 and 127 as with env).
pub fn run(args: Args) -> u8 {
    let failed = if matches!(args.command, Command::Exec { .. } | Command::Shell { .. }) { 125 } else { 1 };
    act(args).unwrap_or_else(|error| {
        eprintln!("tern lab: {}", chain(&error));
        failed
    })
}

fn act(Args { name, command }: Args) -> Result<u8> {
    match command {
        Command::Up {
            nodes,
            cpus,
            cpus_of,
            pace,
            mem,
            rate,
            trunk,
            delay,
            foreign,
            whole,
            real_time,
            vm,
            vm_cpu,
            root_on,
            bare,
        } => {
            let foreign = foreign.iter().flat_map(|f| f.split(',')).map(str::to_owned).collect();
            let options = Options {
                name,
                nodes,
                cpus,
                cpus_of,
                pace,
                memory_bytes: mem,
                rate_bits: rate,
                trunk_bits: trunk,
                delay_us: delay,
                foreign,
                whole,
                real_time,
                daemons: !bare,
                machines: vm,
                machine_cpu: vm_cpu,
                root_on,
            };
            let state = up::up(options)?;
            say(format!("lab {} is up: {}", state.options.name, nodes_in_words(&state)));
        }
        Command::Exec { node, command } if node == SWITCH => match run_at_switch(&LabState::load(&name)?, &command)? {},
        Command::Exec { node, command } => {
            return Ok(end_like(run_in_node(LabState::load(&name)?.node(&node)?, &command)?));
        }
        Command::Shell { node } => {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            return Ok(end_like(run_in_node(LabState::load(&name)?.node(&node)?, &[shell])?));
        }
        Command::Status { json } => status(json)?,
        Command::Ls { node, path } => list(LabState::load(&name)?.node(&node)?, &path)?.iter().for_each(say),
        Command::Cut { a, b } => set_reachable(&LabState::load(&name)?, &a, b.as_deref(), false)?,
        Command::Heal { a, b } => set_reachable(&LabState::load(&name)?, &a, b.as_deref(), true)?,
        Command::Restart { node, flags } => cluster::restart_daemon(LabState::load(&name)?.node(&node)?, &flags)?,
        Command::Down { all: every } => {
            let names = if every { all() } else { vec![name] };
            for name in names {
                match teardown::down(&name)? {
                    true => say(format!("lab {name} is down")),
                    false => say(format!("no lab named {name} was up")),
                }
            }
        }
    }
    Ok(0)
}

/// Prints a line. A closed pipe (`tern lab status | head -1`) is no error.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn nodes_in_words(state: &LabState) -> String {
    match state.nodes.len() {
        1 => "n1".into(),
        n => format!("n1 to n{n}"),
    }
}

fn status(json: bool) -> Result<()> {
    let states: Vec<LabState> = all().iter().filter_map(|name| LabState::load(name).ok()).collect();
    if json {
        let text =
            serde_json::to_string_pretty(&states).map_err(std::io::Error::from).context(|| "encode the status")?;
        say(text);
        return Ok(());
    }
    if states.is_empty() {
        say("no lab is up");
    }
    for state in &states {
        say(format!("lab {} (hub {})", state.options.name, state.hub.pid));
        for node in &state.nodes {
            let alive = if node.init.is_alive() { "up" } else { "DOWN" };
            let kind = match (node.is_machine(), node.foreign) {
                (true, _) => ", virtual machine",
                (_, true) => ", foreign",
                _ => "",
            };
            let daemon = match cluster::status(node) {
                Some(status) => format!("ternd {}: {} of {} nodes alive", status.pid, status.alive, status.known),
                None => "no ternd".into(),
            };
            say(format!("  {:<5} {alive:<4} init {:<7} {:<12} {daemon}{kind}", node.name, node.init.pid, node.address));
        }
    }
    Ok(())
}

/// Lists the names in a directory of the node. Links are followed inside the node.
fn list(node: &NodeState, path: &std::path::Path) -> Result<BTreeSet<String>> {
    if node.is_machine() {
        return Ok(client::list(node, path)?.into_iter().collect());
    }
    // The /proc entry is the node's init only as long as that lives.
    let _pidfd = node.init.open().ok_or_else(|| Error::NodeDown(node.name.clone()))?;
    let what = || format!("list {} on {}", path.display(), node.name);
    let root = std::fs::File::open(format!("/proc/{}/root", node.init.pid)).context(what)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT).context(what)?;
    let entries = rustix::fs::Dir::read_from(&directory).context(what)?;
    let names: Result<BTreeSet<String>, _> =
        entries.map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned())).collect();
    let mut names = names.context(what)?;
    names.retain(|name| name != "." && name != "..");
    Ok(names)
}

fn set_reachable(state: &LabState, a: &str, b: Option<&str>, reachable: bool) -> Result<()> {
    let first = state.node(a)?;
    let others: Vec<&NodeState> = match b {
        Some(b) => vec![state.node(b)?],
        None => state.nodes.iter().filter(|n| n.name != a).collect(),
    };
    for other in others {
        one_way(first, other, reachable)?;
        one_way(other, first, reachable)?;
    }
    Ok(())
}

fn one_way(from: &NodeState, to: &NodeState, reachable: bool) -> Result<()> {
    let Some(index) = node_index(&to.name).filter(|_| from.name != to.name) else {
        return Err(Error::Invalid {
            what: "nodes",
            value: format!("{} {}", from.name, to.name),
            reason: "two different nodes are needed".into(),
        });
    };
    // A node that is down sends nothing.
    match from.init.open() {
        Some(_) if from.is_machine() => client::set_reachable(from, index, reachable),
        Some(pidfd) => in_network(pidfd, || link::set_reachable(index, reachable)),
        None => Ok(()),
    }
}
