//! Labs for integration tests. They are made and used through the real command line, and end with
//! the test, whatever happens.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::thread::ThreadNameSpaceType;

use crate::error::{Context, Error, Result};
use crate::options::Options;
use crate::programs::Programs;
use crate::state::LabState;
use crate::{
    cgroup, cluster,
    process::{self, Process},
    teardown,
};

/// The time that a node may take to end.
const NODE_END: std::time::Duration = std::time::Duration::from_secs(30);

/// A lab that ends when this value is dropped.
#[derive(Debug)]
pub struct Lab {
    tern: PathBuf,
    state: LabState,
}

/// The result of a command in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit status of the command.
    pub status: ExitStatus,
    /// Bytes of standard output.
    pub stdout: Vec<u8>,
    /// Bytes of standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Gives standard output as text, trimmed.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    /// Gives standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl Lab {
    /// Makes a name that no other lab of this machine has.
    pub fn fresh_name(prefix: &str) -> Result<crate::LabName> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("{prefix}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)).parse()
    }

    /// Makes a lab of nodes that run this tern; `tern-lab` lies beside it.
    pub fn up(tern: impl Into<PathBuf>, options: &Options) -> Result<Lab> {
        let tern = tern.into();
        let program = Programs::beside(&tern);
        let mut command = Command::new(&program);
        command.args(["lab", "--name", options.name.as_str(), "up", "--nodes", &options.nodes.to_string()]);
        let mut given = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                command.args([name, &value]);
            }
        };
        given("--cpus", options.cpus.map(|c| c.to_string()));
        given("--mem", options.memory_bytes.map(|b| b.to_string()));
        given("--rate", options.rate_bits.map(|r| r.to_string()));
        given("--trunk", options.trunk_bits.map(|r| r.to_string()));
        options.cpus_of.iter().for_each(|share| given("--cpus-of", Some(share.to_string())));
        given("--pace", (options.pace > 1).then(|| options.pace.to_string()));
        given("--vm", (options.machines > 0).then(|| options.machines.to_string()));
        given("--vm-cpu", (options.machines > 0).then(|| options.machine_cpu.clone()));
        given("--delay", options.delay_us.map(|us| (us as f64 / 1000.0).to_string()));
        options.foreign.iter().for_each(|node| given("--foreign", Some(node.clone())));
        if options.whole {
            command.arg("--whole");
        }
        if options.real_time {
            command.arg("--real-time");
        }
        if options.daemons {
            command.args(["--root-on", &options.root_on]);
        } else {
            command.arg("--bare");
        }
        let output = command.stdin(Stdio::null()).output().context(|| format!("run {}", program.display()))?;
        if !output.status.success() {
            return Err(Error::Setup {
                who: "tern lab up".into(),
                reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        Ok(Lab { tern, state: LabState::load(&options.name)? })
    }

    /// Gives the state of the lab.
    pub fn state(&self) -> &LabState {
        &self.state
    }

    /// Gives the node's root directory, as this machine reaches it, for reading and writing files.
    pub fn root(&self, node: &str) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/root", self.state.node(node)?.init.pid)))
    }

    /// Builds the `tern lab SUBCOMMAND` of this lab.
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(Programs::beside(&self.tern));
        command.args(["lab", "--name", self.state.options.name.as_str(), subcommand]);
        command
    }

    /// Builds a command in a node, for the caller to run.
    pub fn in_node<A: AsRef<OsStr>>(&self, node: &str, argv: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command("exec");
        command.arg(node).arg("--").args(argv);
        command
    }

    /// Starts a command in a node with pipes for all three standard descriptors.
    pub fn spawn<A: AsRef<OsStr>>(&self, node: &str, argv: impl IntoIterator<Item = A>) -> Result<Child> {
        self.in_node(node, argv)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context(|| format!("start a command on {node}"))
    }

    /// Runs a command in a node to its end, without input.
    pub fn exec<A: AsRef<OsStr>>(&self, node: &str, argv: impl IntoIterator<Item = A>) -> Result<Output> {
        self.exec_with(node, argv, b"")
    }

    /// Runs a command in a node to its end, with this input.
    pub fn exec_with<A: AsRef<OsStr>>(
        &self,
        node: &str,
        argv: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Result<Output> {
        let mut child = self.spawn(node, argv)?;
        let mut stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command need not read all of its input.
                let _ = stdin.as_mut().map(|pipe| pipe.write_all(input));
            });
            child.wait_with_output()
        });
        let output = output.context(|| format!("wait for a command on {node}"))?;
        Ok(Output { status: output.status, stdout: output.stdout, stderr: output.stderr })
    }

    /// Cuts the link between two nodes.
    pub fn cut(&self, a: &str, b: &str) -> Result<()> {
        self.plain("cut", &[a, b])
    }

    /// Heals the link between two nodes.
    pub fn heal(&self, a: &str, b: &str) -> Result<()> {
        self.plain("heal", &[a, b])
    }

    fn plain(&self, subcommand: &str, arguments: &[&str]) -> Result<()> {
        let output =
            self.command(subcommand).args(arguments).output().context(|| format!("run tern lab {subcommand}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::Setup {
                who: format!("tern lab {subcommand}"),
                reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    /// Runs `work` in a thread in the node's network namespace, so that sockets made there are the
    /// node's.
    pub fn in_network<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.in_network_of(self.state.node(node)?.init, node, work)
    }

    /// Runs `work` in a thread in the network namespace of the switch, which all frames between
    /// nodes pass.
    pub fn in_switch<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.in_network_of(self.state.hub, "switch", work)
    }

    fn in_network_of<T: Send>(&self, process: Process, name: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
        let pidfd = process.open().ok_or_else(|| Error::NodeDown(name.into()))?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                process::enter(&pidfd, ThreadNameSpaceType::NETWORK)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Kills the node's daemon without warning, if there is one.
    pub fn kill_daemon(&self, node: &str) -> Result<()> {
        cluster::kill_daemon(self.state.node(node)?)
    }

    /// Kills the node's daemon without warning and starts another one, which answers when this
    /// returns.
    pub fn restart_daemon(&self, node: &str) -> Result<()> {
        self.restart_daemon_with(node, &[])
    }

    /// Restarts the daemon as [`Lab::restart_daemon`] does, with `flags` of `ternd`.
    pub fn restart_daemon_with(&self, node: &str, flags: &[&str]) -> Result<()> {
        self.plain("restart", &[&[node, "--"], flags].concat())
    }

    /// Kills everything on the node, like a power failure. The node cannot come back in this lab.
    pub fn kill_node(&self, node: &str) -> Result<()> {
        let init = self.state.node(node)?.init;
        init.signal(rustix::process::Signal::KILL);
        match init.wait(NODE_END) {
            true => Ok(()),
            false => Err(Error::Timeout {
                what: format!("the end of {node}"),
                seconds: NODE_END.as_secs(),
                detail: String::new(),
            }),
        }
    }

    /// Lists the ids of a node's processes on this machine, including those of its rooms, and
    /// zombies.
    pub fn processes(&self, node: &str) -> Result<Vec<i32>> {
        let node = self.state.node(node)?;
        let mut pids = process::members(node.init)?;
        pids.extend(cgroup::members(&node.cgroups));
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// Ends the lab now.
    ///
    /// # Errors
    /// Something could not be ended.
    pub fn down(self) -> Result<()> {
        let name = self.state.options.name.clone();
        std::mem::forget(self);
        teardown::down(&name).map(drop)
    }

    /// Gives the tern binary of this lab.
    pub fn binary(&self) -> &Path {
        &self.tern
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = teardown::down(&self.state.options.name) {
            eprintln!("lab {}: {}", self.state.options.name, crate::error::chain(&error));
        }
    }
}
