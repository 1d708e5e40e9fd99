//! Calls that are not made again after a signal handler.

/// A call that waits, and that a signal handler ends whatever its flags are (signal(7)).
pub fn never_restarts(nr: i64) -> bool {
    matches!(nr, libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgsnd | libc::SYS_msgrcv)
}
