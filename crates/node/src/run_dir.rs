//! The run directory: one daemon holds its lock, and others find its socket there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use control_protocol::codec::encode;
use control_protocol::tool::{REQUEST_BYTES, Request};

use crate::Error;

/// How long the last daemon may take to end after it was killed.
pub(crate) const LAST_GONE_WITHIN: Duration = Duration::from_secs(5);

/// Does a daemon answer in this run directory?
pub fn is_served(run_dir: &Path) -> bool {
    let ask = || {
        let socket = packet::connect(&control_protocol::paths::daemon_socket(run_dir))?;
        packet::set_timeout(&socket, Some(Duration::from_secs(1)))?;
        packet::send(&socket, &encode(&Request::Status, REQUEST_BYTES).map_err(std::io::Error::other)?, &[])?;
        packet::receive(&socket, control_protocol::tool::PACKET_BYTES)
    };
    ask().is_ok_and(|answer| !answer.bytes.is_empty())
}

/// Makes the directories, and takes the lock that one daemon holds.
pub(crate) fn prepare(run_dir: &Path) -> Result<File, Error> {
    let make = |dir: &Path, mode| {
        DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(|e| Error::file("create", dir, e))
    };
    make(run_dir, 0o755)?;
    make(&control_protocol::paths::rooms_dir(run_dir), 0o700)?;
    make(&control_protocol::paths::log_dir(run_dir), 0o755)?;
    let path = run_dir.join("ternd.lock");
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Error::file("open", &path, e))?;
    let start = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(std::fs::TryLockError::Error(e)) => return Err(Error::file("lock", &path, e)),
            // One that was just killed may still be on its way out.
            Err(std::fs::TryLockError::WouldBlock) if start.elapsed() > LAST_GONE_WITHIN || is_served(run_dir) => {
                return Err(Error::Running { run_dir: run_dir.to_path_buf() });
            }
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
