//! Ends of bodies, and of the tries to make one: the deputy ends as its body did.

use crate::deputy::channel;
use crate::deputy::record::Phase;
use crate::room::state::Room;
use control_protocol::steward::RoomKind;
use room_protocol::ToRoom;
use room_protocol::message::{Cause, Ending};
use tempfile::TempDir;

/// Takes the word of the room that a body was made, or why not.
pub fn placed(room: &Room, pid: i32, result: Result<(), (i32, String)>) {
    let mut table = room.table();
    let Some(deputy) = table.deputies.get_mut(&pid) else {
        drop(table);
        // It ended while its body was being made.
        if result.is_ok() {
            room.tell(&ToRoom::Kill { pid });
        }
        return;
    };
    match result {
        Ok(()) if deputy.phase == Phase::Placing => {
            deputy.phase = Phase::Away;
            // Whether it is stopped is looked at from now on.
            room.poller.wake();
        }
        Ok(()) => {}
        Err((errno, what)) => {
            // As env(1) does: 127 not found, 126 not executable; else the tool's own failure.
            let status = match errno {
                libc::ENOENT => 127,
                libc::EACCES | libc::ENOEXEC | libc::EPERM | libc::ETXTBSY | libc::EISDIR => 126,
                _ => 125,
            };
            let program = String::from_utf8_lossy(&deputy.program.path).into_owned();
            let words = format!("tern: cannot run {program} on {}: {}\n", room.args.host, with_reason(&what, errno));
            deputy.end(channel::order(abi::OP_EXIT, [status, 0], &[]), Some(&words));
        }
    }
}

/// Adds the kernel's reason to a failure that does not say it already.
fn with_reason(what: &str, errno: i32) -> String {
    let reason = std::io::Error::from_raw_os_error(errno).to_string();
    if errno == 0 || what.ends_with(&reason) { what.to_owned() } else { format!("{what}: {reason}") }
}

/// The most that is told of why another node's warden failed, characters.
const WHY_CHARS_MAX: usize = 400;

/// Words for the user about a body that tern or its node ended.
pub fn words_for(room: &Room, pid: i32, cause: Cause) -> Option<String> {
    let host = &room.args.host;
    let what = match cause {
        Cause::Own => return None,
        Cause::Memory => "whose kernel killed it for want of memory".into(),
        Cause::Room => "where the first process of its room ended: it ends as if killed".into(),
        // Terminals obey what is no text.
        Cause::Warden { why } => {
            let why: String = why.chars().filter(|c| !c.is_control()).take(WHY_CHARS_MAX).collect();
            format!("where {why}; it ends as if killed")
        }
    };
    tracing::warn!("process {pid} ran on {host}, {what}");
    Some(format!("tern: process {pid} ran on {host}, {what}\n"))
}

/// Has the deputy end as its body did, after `words` went to its standard error.
pub fn exited(room: &Room, pid: i32, how: Ending, words: Option<String>) {
    room.page_cache.forget(pid);
    let words = words.filter(|words| !room.say_to_the_last(pid, words));
    if let Some(deputy) = room.table().deputies.get_mut(&pid) {
        deputy.stderr = None;
        let packet = match how {
            Ending::Exit(status) => channel::order(abi::OP_EXIT, [u64::from(status), 0], &[]),
            Ending::Core(signal) if room.args.kind == RoomKind::NodeLocal => {
                deputy.core_dir = core_dir(room, deputy.credentials.uid[1]);
                with_core(signal, deputy.core_dir.as_ref())
            }
            Ending::Signal(signal) | Ending::Core(signal) => {
                if os::process::dumps_core(signal.into()) {
                    tracing::info!(
                        pid,
                        signal,
                        "no core is written: the memory of the program was on {}",
                        room.args.host
                    );
                }
                channel::order(abi::OP_DIE, [u64::from(signal), 0], &[])
            }
        };
        match deputy.lends {
            // Its children may miss pages that it has.
            true => {
                deputy.ends_with = Some(packet);
                words.into_iter().for_each(|words| deputy.say(&words));
            }
            false => deputy.end(packet, words.as_deref()),
        }
    }
}

/// The core lies on the node, with the program's memory. The parent learns that there is one, for
/// the deputy leaves one, too: an empty one, in a directory that goes when the deputy has ended.
fn with_core(signal: u8, core_dir: Option<&TempDir>) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    match core_dir {
        Some(core_dir) => {
            let path = [core_dir.path().as_os_str().as_bytes(), b"\0"].concat();
            channel::order(abi::OP_DIE_WITH_CORE, [u64::from(signal), 0], &path)
        }
        None => channel::order(abi::OP_DIE, [u64::from(signal), 0], &[]),
    }
}

/// Makes a directory into which only this user can write.
fn core_dir(room: &Room, user: u32) -> Option<TempDir> {
    let made = tempfile::Builder::new().prefix("core-").tempdir_in(&room.args.run_dir);
    let owned = made.and_then(|made| {
        std::os::unix::fs::chown(made.path(), Some(user), None)?;
        Ok(made)
    });
    owned.inspect_err(|e| tracing::warn!("no directory for a core of a deputy: {e}")).ok()
}

#[cfg(test)]
mod tests {
    use super::with_reason;

    #[test]
    fn reasons_are_said_once() {
        assert_eq!(
            with_reason("executing the program", 2),
            "executing the program: No such file or directory (os error 2)"
        );
        let whole = "entering /x: No such file or directory (os error 2)";
        assert_eq!(with_reason(whole, 2), whole);
        assert_eq!(with_reason("odd bytes", 0), "odd bytes");
    }
}
