//! Has a room's steward an heir at all times: one that dies is replaced, and the next one is given
//! all deputies.

use crate::deputy::watchdog::ROLE;
use crate::room::state::Room;
use os::pidfd::PidFd;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Between two tries to start one.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// Waits for ever, in a thread of its own, for heirs that die.
pub fn keep(room: &Arc<Room>) {
    loop {
        let (socket, _) = room.watchdog.socket();
        wait_for_end(&socket);
        tracing::error!("the heir of the steward has died: another one takes its place");
        while let Err(e) = replace(room) {
            tracing::error!("no heir can be started, so no process is taken: {e}");
            let why =
                format!("nobody would watch over it here: the steward's heir has died, and none can be started ({e})");
            room.watchdog.set_missing(why);
            std::thread::sleep(TRIED_EVERY);
        }
    }
}

/// Until the other end is closed. What the heir says is for others.
fn wait_for_end(socket: &OwnedFd) {
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    while polled.revents & (libc::POLLHUP | libc::POLLERR) == 0 {
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&mut polled, 1, -1) };
    }
}

fn replace(room: &Room) -> std::io::Result<()> {
    let (ours, theirs) = os::socket::pair().map_err(std::io::Error::other)?;
    // No code runs between the fork and the execution: the memory of this process is not copied.
    let mut child = Command::new("/proc/self/exe")
        .arg0("tern")
        .args([ROLE, &room.args.host])
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    std::thread::Builder::new().name("heir".into()).spawn(move || child.wait())?;
    room.watchdog.succeed(ours);
    // The steward entrusts each new deputy to this heir.
    let deputies: Vec<(i32, Arc<PidFd>)> =
        room.table().deputies.iter().map(|(pid, deputy)| (*pid, deputy.pidfd.clone())).collect();
    deputies.iter().for_each(|(pid, deputy)| room.watchdog.entrust(*pid, deputy));
    room.watchdog.entrust_again();
    tracing::info!("the new heir has {} deputies", deputies.len());
    Ok(())
}
