//! The hub: the parent of all inits, and the owner of the switch. It makes a lab, and ends the lab
//! on request or if `up` fails.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::cgroup::{self, Hierarchy};
use crate::channel::{ANSWER_LIMIT, Channel, HubRequest};
use crate::error::{Context, Result};
use crate::machine::boot::BOOT_LIMIT;
use crate::name_lock::lock;
use crate::options::Options;
use crate::process::{Process, Signals, reap};
use crate::programs::Programs;
use crate::state::{LabState, NodeState, address, directory, make_directory};
use crate::task::Task;
use crate::{link, relay, spawn, teardown};

/// Runs the role `__lab-hub`: standard input is the channel to `up`.
pub fn main() -> Result<()> {
    let mut control = Channel::standard_input()?;
    let HubRequest::Make { options, programs } = control.receive()? else { return Ok(()) };
    let signals = Signals::block(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP])?;
    let locked = lock(&options.name, Duration::from_secs(20));
    let lock = match locked {
        Ok(lock) => lock,
        Err(error) => return control.answer(&Err(error)),
    };
    let mut hub = Hub { options: *options, programs, inits: Vec::new(), channels: Vec::new(), relay: None };
    let built = teardown::clear(&hub.options.name).and_then(|()| hub.build());
    control.answer(&built)?;
    if built.is_ok() {
        hub.serve(control, &signals);
    }
    let ended = hub.end();
    drop(lock);
    ended
}

struct Hub {
    options: Options,
    programs: Programs,
    /// The inits of the nodes, n1 first. They are children that only `reap` forgets, so a PID here
    /// never names another process.
    inits: Vec<i32>,
    /// The channel to each init, which ends when its channel closes.
    channels: Vec<Channel>,
    relay: Option<(Child, Channel)>,
}

impl Hub {
    fn build(&mut self) -> Result<()> {
        let directory = directory(&self.options.name);
        let staging = directory.join("root");
        make_directory(&staging)?;
        log_to(&directory.join("log"))?;
        let hierarchies = cgroup::hierarchies()?;
        // SAFETY: a network namespace shares or unshares nothing that Rust's types rely on (unlike
        // CLONE_FILES).
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.context(|| "make the hub's network namespace")?;
        link::make_bridges(&self.options)?;
        for index in 1..=self.options.all_nodes() {
            let (channel, end) = Channel::pair()?;
            let machine = self.options.is_machine(index);
            self.inits.push(spawn::init(&self.programs.lab, &format!("n{index}"), &end, machine)?);
            self.channels.push(channel);
        }
        match self.options.delay_us {
            None => link::make_veths(&self.inits[..self.options.nodes as usize], &self.options)?,
            Some(delay_us) => {
                self.start_relay(delay_us)?;
                link::join_taps(1..=self.options.nodes, &self.options)?;
            }
        }
        self.make_machine_ports()?;
        link::set_ports(&self.options)?;
        let nodes = self.set_up_nodes(&hierarchies, &staging)?;
        let (options, programs) = (self.options.clone(), self.programs.clone());
        LabState { options, programs, hub: Process::current()?, nodes }.save()
    }

    /// Makes the links of the virtual machines, and the switch's own address, from which their
    /// agents are asked.
    fn make_machine_ports(&self) -> Result<()> {
        if self.options.machines == 0 {
            return Ok(());
        }
        let machines = self.options.nodes + 1..=self.options.all_nodes();
        machines.clone().try_for_each(|index| relay::make_lasting_tap(&format!("n{index}")))?;
        link::join_taps(machines.clone(), &self.options)?;
        link::set_switch(machines)
    }

    fn start_relay(&mut self, delay_us: u64) -> Result<()> {
        let (mut channel, end) = Channel::pair()?;
        let child = Command::new(&self.programs.lab)
            .arg("__lab-relay")
            .stdin(Stdio::from(end))
            .stdout(Stdio::null())
            .spawn()
            .context(|| "start the relay")?;
        // Each frame crosses two links.
        channel.send(&relay::Task { inits: self.inits.clone(), delay_us: delay_us / 2 })?;
        let ready = channel.expect_ready("relay", &self.options.name);
        self.relay = Some((child, channel));
        ready
    }

    /// Sets up all nodes concurrently.
    fn set_up_nodes(&mut self, hierarchies: &[Hierarchy], staging: &Path) -> Result<Vec<NodeState>> {
        let mut nodes = Vec::new();
        for ((index, init), channel) in (1..).zip(&self.inits).zip(&self.channels) {
            let name = format!("n{index}");
            let machine = self.options.is_machine(index);
            // A virtual machine limits its memory itself, and QEMU needs more.
            let memory_bytes = self.options.memory_bytes.filter(|_| !machine);
            let cgroups = cgroup::make(
                hierarchies,
                &Options { cpus: self.options.cpus_of(index), memory_bytes, ..self.options.clone() },
                &name,
            )?;
            channel.send(&Task {
                index,
                options: self.options.clone(),
                programs: self.programs.clone(),
                staging: staging.to_owned(),
                hierarchies: hierarchies.to_owned(),
                cgroups: cgroups.clone(),
            })?;
            let foreign = self.options.foreign.contains(&name);
            let console = machine.then(|| directory(&self.options.name).join(format!("{name}.console")));
            nodes.push(NodeState {
                name,
                address: address(index),
                init: Process::of(*init)?,
                cgroups,
                foreign,
                whole: self.options.shows_machine(index),
                console,
                pace: self.options.pace,
            });
        }
        for (node, channel) in nodes.iter().zip(&mut self.channels) {
            if node.is_machine() {
                channel.limit(BOOT_LIMIT + ANSWER_LIMIT)?;
            }
            channel.expect_ready(&node.name, &self.options.name)?;
        }
        Ok(nodes)
    }

    /// Waits for the end: SIGTERM, or the end of `up` before it has committed.
    fn serve(&mut self, control: Channel, signals: &Signals) {
        let mut control = Some(control);
        loop {
            let mut waited = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
            waited.extend(control.as_ref().map(|c| PollFd::new(c, PollFlags::IN)));
            if poll(&mut waited, None).is_err_and(|e| e != rustix::io::Errno::INTR) {
                return;
            }
            let spoke = waited.get(1).is_some_and(|c| !c.revents().is_empty());
            while let Some(signal) = signals.next() {
                match signal {
                    libc::SIGCHLD => self.forget(&reap()),
                    _ => return,
                }
            }
            if spoke {
                let order = control.as_mut().map(Channel::receive::<HubRequest>);
                let Some(Ok(HubRequest::Commit)) = order else { return };
                control = None;
            }
        }
    }

    fn forget(&mut self, ended: &[i32]) {
        self.inits.retain(|pid| !ended.contains(pid));
    }

    /// Ends all nodes, waits for that, and removes what the kernel does not.
    fn end(mut self) -> Result<()> {
        self.channels.clear();
        if let Some((mut relay, channel)) = self.relay.take() {
            drop(channel);
            let _ = relay.kill();
        }
        teardown::end_children(&self.options.name, &mut self.inits)?;
        teardown::clear(&self.options.name)
    }
}

/// Directs standard error of this process and its children to this file.
fn log_to(path: &Path) -> Result<()> {
    let log = File::options().create(true).append(true).open(path).context(|| format!("open {}", path.display()))?;
    rustix::stdio::dup2_stderr(&log).context(|| "redirect the log")
}
