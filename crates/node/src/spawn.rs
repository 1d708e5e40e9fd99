//! Starting stewards and wardens: processes that do not end with the daemon.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pipe::{PipeFlags, pipe_with};

/// Starts `tern ROLE ARGS...` in a session of its own, as no child of the daemon, with its output
/// going to the log. Returns its PID. `forbidden` are the expenses that the role must do without.
pub(crate) fn detached<S: AsRef<OsStr>>(
    role: &str,
    args: impl IntoIterator<Item = S>,
    log: &Path,
    forbidden: &str,
) -> io::Result<u32> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
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
    match forbidden {
        "" => command.env_remove(os::expenses::FORBIDDEN),
        names => command.env(os::expenses::FORBIDDEN, names),
    };
    let tell = writer.as_raw_fd();
    // SAFETY: between fork and exec only system calls that are async-signal-safe (signal-safety(7))
    // are made.
    unsafe { command.pre_exec(move || leave_family(tell)) };
    // The intermediate process exits at once; the pipe by which `spawn` learns of exec's failure is
    // the grandchild's.
    command.spawn()?.wait()?;
    drop(writer);
    let mut pid = [0; 4];
    File::from(reader).read_exact(&mut pid)?;
    Ok(u32::from_ne_bytes(pid))
}

fn leave_family(tell: RawFd) -> io::Result<()> {
    // SAFETY: plain system calls; the one with memory reads a local array. This process has one
    // thread, being a fresh copy.
    unsafe {
        if libc::setsid() < 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            0 => {
                let pid = libc::getpid().to_ne_bytes();
                if libc::write(tell, pid.as_ptr().cast(), pid.len()) < 0 {
                    Err(io::Error::last_os_error())
                } else {
                    Ok(())
                }
            }
            -1 => Err(io::Error::last_os_error()),
            _ => libc::_exit(0),
        }
    }
}
