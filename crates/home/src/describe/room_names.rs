//! Made-up names, by which a room opens files that have no name at home any more.

use crate::proxy::mounts;
use checkpoint::BodyError;
use homefs::server::Server;
use image::File;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Made-up names of files, by their places; they are nothing any more when this is dropped.
#[derive(Default)]
pub struct RoomNames {
    made_up: HashMap<u32, PathBuf>,
    server: Option<Arc<Server>>,
}

impl RoomNames {
    /// For these files of process `pid`: places, and links of /proc/PID that lead to them.
    pub fn of_removed(
        server: Option<&Arc<Server>>,
        pid: i32,
        files: &[File],
        removed: &[(u32, String)],
    ) -> Result<RoomNames, BodyError> {
        let mut names = RoomNames { made_up: HashMap::new(), server: server.cloned() };
        for (place, link) in removed {
            let Some(file) = files.get(*place as usize) else { continue };
            let path = format!("/proc/{pid}/{link}");
            let failed = |e: rustix::io::Errno| os::Error::new(format!("looking at {path}"), std::io::Error::from(e));
            let held =
                rustix::fs::open(path.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
            let may_be_named = is_unnamed(pid, link);
            let server = names.server.as_ref();
            let name = server.and_then(|server| server.name_removed(held, &file.path, may_be_named));
            names.made_up.insert(*place, name.ok_or_else(|| BodyError::NotMigratable(unseen(file)))?);
        }
        Ok(names)
    }

    /// The path by which the room opens a file.
    pub fn of(&self, place: u32, file: &File) -> Vec<u8> {
        self.made_up.get(&place).map_or_else(|| file.path.clone(), |name| name.clone().into_os_string().into_vec())
    }
}

/// Checks that a room can open these files of process `pid`, which have no name:
/// [`RoomNames::of_removed`] gives them one on a file system that the room sees.
///
/// # Errors
/// The first that lies on none.
pub fn check_removed(pid: i32, files: &[File], removed: &[(u32, String)]) -> Result<(), BodyError> {
    if removed.is_empty() {
        return Ok(());
    }
    let seen = mounts::seen_now()?;
    for (place, link) in removed {
        let Some(file) = files.get(*place as usize) else { continue };
        let path = format!("/proc/{pid}/{link}");
        let found = std::fs::metadata(&path).map_err(|e| os::Error::new(format!("looking at {path}"), e))?;
        if !mounts::shows(&seen, found.dev()) {
            return Err(BodyError::NotMigratable(unseen(file)));
        }
    }
    Ok(())
}

fn unseen(file: &File) -> String {
    format!("its file {} has no name, and no room sees where it is", shown(file))
}

impl Drop for RoomNames {
    fn drop(&mut self) {
        for path in self.made_up.values() {
            self.server.iter().for_each(|server| server.unname(path));
        }
    }
}

/// The descriptor was opened without a name (O_TMPFILE).
fn is_unnamed(pid: i32, link: &str) -> bool {
    let fd = link.strip_prefix("fd/").and_then(|fd| fd.parse().ok());
    let info = fd.and_then(|fd| os::process::fd_info(pid, fd).ok());
    info.is_some_and(|info| info.flags & libc::O_TMPFILE == libc::O_TMPFILE)
}

fn shown(file: &File) -> String {
    String::from_utf8_lossy(&file.path).into_owned()
}
