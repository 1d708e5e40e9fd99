//! Bringing up a lab: the hub first, then the cluster in it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::channel::{Channel, HubRequest};
use crate::cluster;
use crate::error::{Context, Error, Result};
use crate::machine::{self, boot::BOOT_LIMIT};
use crate::options::Options;
use crate::programs::Programs;
use crate::relay;
use crate::state::LabState;

/// A lab of more nodes may need more numbers of processes than a kernel has by itself.
const MANY_NODES: u32 = 32;
/// The most numbers of processes that there can be (proc_sys_kernel(5)); systemd sets it, too.
const PID_MAX: &str = "4194304";

/// Gives this machine all numbers of processes: each process of a node has one of its own here, and
/// a placed one has a second one for its deputy.
fn raise_pid_max() {
    // A machine that forbids it has room for smaller jobs.
    let _ = std::fs::write("/proc/sys/kernel/pid_max", PID_MAX);
}

/// Makes a lab. It is complete when this returns, and gone if this fails.
pub fn up(options: Options) -> Result<LabState> {
    options.check()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    if options.delay_us.is_some() && !relay::available() {
        return Err(Error::Invalid {
            what: "--delay",
            value: "given".into(),
            reason: "this machine has no /dev/net/tun, which delayed links are made of".into(),
        });
    }
    if options.machines > 0 {
        machine::prepare()?;
    }
    if options.nodes > MANY_NODES {
        raise_pid_max();
    }
    let name = options.name.clone();
    let control = start_hub(options)?;
    let state = LabState::load(&name)?;
    if state.options.daemons {
        cluster::found(&state)?;
    }
    control.send(&HubRequest::Commit)?;
    Ok(state)
}

/// Starts the hub, and waits until all nodes are set up. Until `Commit` is sent, the lab ends with
/// the channel.
fn start_hub(options: Options) -> Result<Channel> {
    let programs = Programs::of_this_process()?;
    let (mut control, end) = Channel::pair()?;
    let name = options.name.clone();
    let machines = options.machines > 0;
    let mut command = Command::new(&programs.lab);
    command.args(["__lab-hub", name.as_str()]).stdin(Stdio::from(end)).stdout(Stdio::null()).stderr(Stdio::null());
    command.current_dir("/");
    // SAFETY: setsid is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
    command.spawn().context(|| format!("start the hub ({})", programs.lab.display()))?;
    // The command holds the hub's end of the channel. Without it, the death of a hub is noticed at
    // once.
    drop(command);
    control.send(&HubRequest::Make { options: Box::new(options), programs })?;
    if machines {
        control.limit(BOOT_LIMIT * 2)?;
    }
    control.expect_ready("lab", &name)?;
    Ok(control)
}
