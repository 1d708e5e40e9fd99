//! PID 1 of a node: sets its node up, says so, then reaps. It ends when the hub does, and the
//! kernel ends the node with it.

use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::cgroup::{self};
use crate::channel::Channel;
use crate::error::{Context, Error, Result};
use crate::link;
use crate::machine::boot::Machine;
use crate::process::{Signals, reap};
use crate::root::Root;
use crate::task::Task;

/// Runs the role `__lab-init`: standard input is the channel to the hub.
pub fn main() -> Result<()> {
    let mut hub = Channel::standard_input()?;
    let task: Task = hub.receive()?;
    if task.options.is_machine(task.index) {
        return keep_machine(&hub, &task);
    }
    let outcome = set_up(&task);
    hub.answer(&outcome)?;
    outcome?;
    reap_until_end(&hub)
}

/// Runs a virtual machine, with which this process ends.
fn keep_machine(hub: &Channel, task: &Task) -> Result<()> {
    let signals = Signals::block(&[libc::SIGCHLD])?;
    let mut machine = match enter_cgroups(&task.cgroups).and_then(|()| Machine::boot(task)) {
        Ok(machine) => machine,
        Err(error) => return hub.answer(&Err(error)),
    };
    hub.answer(&Ok(()))?;
    loop {
        if let Some(reason) = machine.ended() {
            return Err(Error::Setup { who: format!("n{}", task.index), reason });
        }
        if wait_for_child_or_end(hub, &signals)? {
            return Ok(());
        }
    }
}

fn set_up(task: &Task) -> Result<()> {
    let node = format!("n{}", task.index);
    enter_cgroups(&task.cgroups)?;
    rustix::system::sethostname(node.as_bytes()).context(|| "set the host name")?;
    link::set_node(task.index, &task.options)?;
    let root = Root {
        node: &node,
        whole: task.options.shows_machine(task.index),
        foreign: task.options.foreign.contains(&node),
        programs: &task.programs,
        paced: task.options.pace > 1,
        staging: &task.staging,
        hosts: &crate::state::hosts(task.options.all_nodes()),
        hierarchies: &task.hierarchies,
    };
    root.set_up()
}

/// Makes the node's group the root of its cgroup namespace, even if its processes are one level
/// below.
fn enter_cgroups(groups: &[PathBuf]) -> Result<()> {
    cgroup::join(&groups.iter().map(|group| cgroup::whole(group).to_owned()).collect::<Vec<_>>())?;
    // SAFETY: a cgroup namespace shares or unshares nothing that Rust's types rely on (unlike
    // CLONE_FILES).
    unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) }.context(|| "make a cgroup namespace")?;
    cgroup::join(groups)
}

fn reap_until_end(hub: &Channel) -> Result<()> {
    let signals = Signals::block(&[libc::SIGCHLD])?;
    loop {
        reap();
        if wait_for_child_or_end(hub, &signals)? {
            return Ok(());
        }
    }
}

/// Waits until a child has changed (false) or the hub has ended (true).
fn wait_for_child_or_end(hub: &Channel, signals: &Signals) -> Result<bool> {
    let mut waited = [PollFd::new(hub, PollFlags::IN), PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
    match poll(&mut waited, None) {
        Err(rustix::io::Errno::INTR) | Ok(_) => {}
        Err(e) => return Err(e).context(|| "wait for children"),
    }
    // The hub sends nothing more, so a readable channel means its end.
    let ended = !waited[0].revents().is_empty();
    while signals.next().is_some() {}
    Ok(ended)
}
