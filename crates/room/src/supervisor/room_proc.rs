//! What this machine's kernel says of the processes of the room.

use crate::sandbox::{guest_memory, ids};
use os::ptrace::HostTid;
use room_protocol::message::DeviceName;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;

/// Most names of one directory.
const NAMES_MAX: usize = 1 << 16;

fn path(host: HostTid, rest: &str) -> String {
    format!("/proc/{}/{rest}", host.0)
}

/// User and group of a process, in the room's numbers; 0 if nobody but root may look into it.
pub fn owner(host: HostTid) -> Option<(u32, u32)> {
    let found = std::fs::metadata(path(host, "")).ok()?;
    Some((ids::inside(found.uid()), ids::inside(found.gid())))
}

/// An entry is there.
pub fn has(host: HostTid, rest: &str) -> bool {
    std::fs::symlink_metadata(path(host, rest)).is_ok()
}

/// Permissions of an entry that is a link.
pub fn mode(host: HostTid, rest: &str) -> Option<u32> {
    std::fs::symlink_metadata(path(host, rest)).ok().map(|found| found.mode())
}

/// Where a link leads, as the process sees it.
pub fn text(host: HostTid, rest: &str) -> Option<Vec<u8>> {
    let text = std::fs::read_link(path(host, rest)).ok()?.into_os_string().into_vec();
    Some(homefs::removed::shown(&text).unwrap_or(text))
}

/// The content of a file.
pub fn bytes(host: HostTid, rest: &str) -> Option<Vec<u8>> {
    std::fs::read(path(host, rest)).ok()
}

/// The same, as text.
pub fn content(host: HostTid, rest: &str) -> Option<String> {
    bytes(host, rest).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Names in a directory.
pub fn names(host: HostTid, rest: &str) -> Vec<DeviceName> {
    let dots = [&b"."[..], b".."].map(|name| DeviceName { name: name.to_vec(), ino: 1, kind: libc::DT_DIR });
    let entries = std::fs::read_dir(path(host, rest)).into_iter().flatten().flatten().take(NAMES_MAX);
    let names = entries.map(|entry| {
        let name = entry.file_name();
        let kind = if rest.is_empty() { kind(&name.to_string_lossy()) } else { libc::DT_LNK };
        DeviceName { name: name.into_vec(), ino: u64::MAX, kind }
    });
    dots.into_iter().chain(names).collect()
}

/// What the entries of a process are in a listing.
fn kind(name: &str) -> u8 {
    match name {
        "attr" | "fd" | "fdinfo" | "map_files" | "net" | "ns" | "task" => libc::DT_DIR,
        "cwd" | "exe" | "root" => libc::DT_LNK,
        _ => libc::DT_REG,
    }
}

/// A thread asks where a link leads (`readlink(2)`), whose last name is this; it does not follow it
/// (`proc_pid_syscall(5)`).
pub fn asks_for_text(asker: HostTid, name: &[u8]) -> bool {
    const PATH_MAX: usize = 4096;
    let Some(call) = os::waiting::call(asker.0) else { return false };
    let at = match call.number {
        libc::SYS_readlink => call.args[0],
        libc::SYS_readlinkat => call.args[1],
        _ => return false,
    };
    let Ok(path) = guest_memory::read_string(asker.0, at, PATH_MAX) else { return false };
    path.is_empty() || path.rsplit(|b| *b == b'/').next() == Some(name)
}
