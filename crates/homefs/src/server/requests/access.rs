//! Access checks: whether a process may open files by name.

use crate::server::state::creds::{Authority, Credentials};
use crate::sys;
use rustix::io::{Errno, Result};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Tells for each of these files, with O_ flags, whether this process lacks the rights to open it
/// (access(2)). Nothing is opened.
///
/// # Errors
/// This process itself may not take on that identity.
pub fn barred(who: &Credentials, files: &[(PathBuf, i32)]) -> Result<Vec<bool>> {
    // The thread is new, because it takes on the identity for good.
    let asked = std::thread::scope(|scope| {
        let ask = || {
            Authority::of_this_thread()?.assume(who)?;
            Ok(files.iter().map(|(path, flags)| is_barred(path, *flags)).collect())
        };
        scope.spawn(ask).join()
    });
    asked.unwrap_or(Err(Errno::IO))
}

fn is_barred(path: &Path, flags: i32) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mode = match flags & libc::O_ACCMODE {
        // Only the path there counts.
        _ if flags & libc::O_PATH != 0 => libc::F_OK,
        libc::O_RDONLY => libc::R_OK,
        libc::O_WRONLY => libc::W_OK,
        _ => libc::R_OK | libc::W_OK,
    };
    // A file whose name is gone, or is another file's, is found by the opener.
    matches!(sys::may(&path, mode), Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    /// Only the superuser can act as another user.
    #[test]
    fn rights_are_those_of_the_one_in_question() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let file = |name: &str, mode| {
            let path = place.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        };
        let (own, readable) = (file("own", 0o600), file("readable", 0o644));
        let asked = [
            (own.clone(), libc::O_RDONLY),
            (readable.clone(), libc::O_RDONLY),
            (readable, libc::O_RDWR),
            (place.path().join("nothing"), libc::O_RDONLY),
        ];
        let nobody = Credentials { uid: 65534, gid: 65534, groups: Arc::from([]), caps: 0 };
        assert_eq!(barred(&nobody, &asked).unwrap(), [true, false, true, false]);
        let root = Credentials { uid: 0, gid: 0, groups: Arc::from([]), caps: u64::MAX };
        assert_eq!(barred(&root, &asked).unwrap(), [false; 4]);
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(barred(&nobody, &[(own, libc::O_PATH)]).unwrap(), [true]);
    }
}
