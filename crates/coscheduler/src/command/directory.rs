//! The directory of an agent.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::Error;

/// Gives the directory of the user's agent, and makes it if there is none: `run_dir` for root, else
/// one that no other user can write.
///
/// # Errors
/// The directory cannot be made, or belongs to another user.
pub fn of_agent(run_dir: &Path) -> Result<PathBuf, Error> {
    let user = rustix::process::geteuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if user == 0 => run_dir.to_owned(),
        Some(path) if Path::new(&path).is_dir() => Path::new(&path).join("tern"),
        _ => PathBuf::from(format!("/tmp/tern-{user}")),
    };
    match make(&path, user) {
        Ok(()) => Ok(path),
        Err(source) => Err(Error::Directory { path, source }),
    }
}

fn make(path: &Path, user: u32) -> io::Result<()> {
    const OTHERS_WRITE: u32 = 0o022;
    match std::fs::DirBuilder::new().mode(0o755).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != user || found.mode() & OTHERS_WRITE != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user, or others can write it",
        ));
    }
    Ok(())
}
