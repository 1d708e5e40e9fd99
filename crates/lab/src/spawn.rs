//! Starting a node's init in namespaces of its own.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Context, Result};

/// Starts `__lab-init` as PID 1 of new mount, PID, network, UTS and IPC namespaces, with `channel`
/// as its standard input. Gives its PID as this process numbers it. The init of a virtual machine
/// stays in the network of this process, where the machine's TAP is. (The cgroup namespace is made
/// later: its root is the group of the process at that time.)
///
/// Only for processes with one thread: the child must not need a lock that another thread held.
pub fn init(binary: &Path, node: &str, channel: &OwnedFd, machine: bool) -> Result<i32> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::from).context(|| "name the tern binary");
    let (path, role, node) = (text(binary.as_os_str().as_bytes())?, text(b"__lab-init")?, text(node.as_bytes())?);
    let argv = [path.as_ptr(), role.as_ptr(), node.as_ptr(), std::ptr::null()];
    // SAFETY: an all-zero clone_args is valid.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    let network = if machine { 0 } else { libc::CLONE_NEWNET };
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | network;
    arguments.flags = namespaces as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of all memory, and calls
    // only dup2, execv and _exit.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &arguments, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()).context(|| format!("make namespaces for {node:?}")),
        // SAFETY: in the child; all pointers were made before and stay valid.
        0 => unsafe {
            libc::dup2(channel.as_raw_fd(), 0);
            libc::execv(path.as_ptr(), argv.as_ptr());
            libc::_exit(127)
        },
        pid => Ok(pid as i32),
    }
}
