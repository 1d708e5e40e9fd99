//! Starting stewards and wardens: processes that do not end with the daemon.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts `tern ROLE ARGS...` in a session of its own, as no child of the daemon, with its output going to the log.
pub(crate) fn detached<S: AsRef<OsStr>>(role: &str, args: impl IntoIterator<Item = S>, log: &Path) -> io::Result<()> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    // Also right after the file was replaced by an upgrade: the same program as this daemon.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("tern")
        .arg(role)
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .current_dir("/");
    // SAFETY: between fork and exec only setsid, fork and _exit are called, which are async-signal-safe (signal-safety(7)).
    unsafe { command.pre_exec(leave_family) };
    // The intermediate process exits at once; the pipe by which `spawn` learns of exec's failure is the grandchild's.
    command.spawn()?.wait()?;
    Ok(())
}

fn leave_family() -> io::Result<()> {
    // SAFETY: plain system calls without memory arguments; this process has one thread, being a fresh copy.
    unsafe {
        if libc::setsid() < 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            0 => Ok(()),
            -1 => Err(io::Error::last_os_error()),
            _ => libc::_exit(0),
        }
    }
}
