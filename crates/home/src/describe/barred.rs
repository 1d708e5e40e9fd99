//! Files that a process has open, and could not open again: its rights are others than when they
//! were opened (it has become another user, or was given them). A room opens with the rights of
//! now, so these stay at home, behind stand-ins.

use checkpoint::BodyError;
use homefs::server::Credentials;
use image::File;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Which of these files process `pid` may not open.
pub fn barred(pid: i32, files: &[&File]) -> Result<Vec<bool>, BodyError> {
    let status = os::process::status(pid)?;
    let none = || vec![false; files.len()];
    if files.is_empty() || may_everything(status.uid[1], status.capabilities) {
        return Ok(none());
    }
    let who = Credentials {
        uid: status.uid[3],
        gid: status.gid[3],
        groups: Arc::from(status.groups.as_slice()),
        caps: status.capabilities,
    };
    let asked: Vec<_> = files.iter().map(|file| (OsStr::from_bytes(&file.path).into(), file.flags)).collect();
    // Who may not become somebody else only looks at processes of its own user.
    let found = homefs::server::barred(&who, &asked).unwrap_or_else(|_| none());
    // Those without a name are found by another one.
    Ok(found.into_iter().zip(files).map(|(barred, file)| barred && !file.removed).collect())
}

/// These files, which are all opened anew elsewhere, if process `pid` may open each of them again
/// and enter its working directory.
pub fn checked(pid: i32, files: Vec<File>, cwd: &[u8]) -> Result<Vec<File>, BodyError> {
    // Who enters a directory looks into it.
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let inside = File { path: [cwd, b"/."].concat(), inode: 0, flags, removed: false };
    let all: Vec<&File> = files.iter().chain([&inside]).collect();
    let found = barred(pid, &all)?;
    match found.iter().zip(&all).find(|(barred, _)| **barred) {
        None => Ok(files),
        Some((_, file)) if **file == inside => {
            let name = String::from_utf8_lossy(cwd);
            Err(BodyError::NotMigratable(format!(
                "it may not enter its working directory ({name}) any more: its rights are others"
            )))
        }
        Some((_, file)) => {
            let name = String::from_utf8_lossy(&file.path);
            Err(BodyError::NotMigratable(format!(
                "it may not open {name} any more, which it has open or mapped: its rights are others"
            )))
        }
    }
}

fn may_everything(uid: u32, capabilities: u64) -> bool {
    const CAP_DAC_OVERRIDE: u64 = 1 << 1;
    uid == 0 && capabilities & CAP_DAC_OVERRIDE != 0
}
