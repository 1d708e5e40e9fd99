//! Halting this machine, or starting it again, as root of a home wants that this node's owner lets
//! rule it (`admin-by`).

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use control_protocol::peer::{PeerAnswer, PeerRequest};
use control_protocol::power::PowerOrder;
use identity::NodeName;
use rustix::system::RebootCommand;

use crate::Error;
use crate::daemon::Daemon;
use crate::dial::Session;

/// Time in which the answer goes out, before the machine does.
const ANSWERED_WITHIN: Duration = Duration::from_millis(300);
/// There if systemd is the machine's first process (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// Asks another node to halt.
///
/// # Errors
/// The node is this one; it does not answer; its owner does not allow the order.
pub(crate) fn ask(daemon: &Arc<Daemon>, node: &str, order: PowerOrder) -> Result<(), Error> {
    if node == daemon.me().name {
        let reason = format!("it is this machine: use {}(8)", order.word());
        return Err(Error::Refused { node: node.to_owned(), reason });
    }
    let member = daemon.living_soon(node)?;
    let asked = async { Session::open(daemon, &member).await?.ask(&PeerRequest::Power(order)).await };
    match daemon.runtime.block_on(asked)? {
        PeerAnswer::Done => Ok(()),
        _ => Err(Error::Refused { node: node.to_owned(), reason: "unexpected answer".into() }),
    }
}

/// Halts this machine a moment later, as root of `home` wants.
///
/// # Errors
/// The reason in words: this node's owner does not allow that.
pub(crate) fn obey(daemon: &Daemon, home: &NodeName, order: PowerOrder) -> Result<(), String> {
    if !daemon.policy.settings().admin_by.includes(home.as_str()) {
        let word = order.word();
        return Err(format!("its owner does not let {home} {word} it (there: tern policy set admin-by={home})"));
    }
    tracing::warn!("root of {home} has this machine {}", order.word());
    let go = move || {
        std::thread::sleep(ANSWERED_WITHIN);
        if let Err(e) = act(order) {
            tracing::error!("this machine cannot {}: {e}", order.word());
        }
    };
    let started = std::thread::Builder::new().name("power".into()).spawn(go);
    started.map(drop).map_err(|e| format!("a thread cannot be started: {e}"))
}

/// Has systemd end the machine's services first. A machine that has none is ended at once.
fn act(order: PowerOrder) -> std::io::Result<()> {
    if std::path::Path::new(SYSTEMD).is_dir() {
        let verb = match order {
            PowerOrder::Halt => "poweroff",
            PowerOrder::Reboot => "reboot",
        };
        let status = Command::new("systemctl").args(["--no-block", verb]).status()?;
        return if status.success() { Ok(()) } else { Err(std::io::Error::other(format!("systemctl: {status}"))) };
    }
    rustix::fs::sync();
    let command = match order {
        PowerOrder::Halt => RebootCommand::PowerOff,
        PowerOrder::Reboot => RebootCommand::Restart,
    };
    Ok(rustix::system::reboot(command)?)
}
