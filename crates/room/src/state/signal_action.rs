//! The actions of a guest's program on signals.

use os::ptrace::HostTid;

/// The program neither handles nor ignores the signal.
pub fn is_default(host: HostTid, signal: i32) -> bool {
    os::process::status(host.0).is_ok_and(|s| (s.caught | s.ignored) & (1 << (signal - 1)) == 0)
}
