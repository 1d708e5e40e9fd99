//! The files that outlive a build in the user's directory of caches: the library that programs
//! preload, and what was learnt of programs.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use policy::spread::Programs;

/// The library, as it was built with this program.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exec-hook.so"));
/// File of what was learnt.
const PROGRAMS: &str = "programs.json";
/// Largest such file that is read, bytes.
const PROGRAMS_BYTES: u64 = 4 << 20;

/// The directory: `tern` below the user's caches, else below `fallback`.
pub(super) fn directory(fallback: &Path) -> PathBuf {
    let caches = std::env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()).map(PathBuf::from);
    let caches = caches.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    let made = caches
        .map(|caches| caches.join("tern"))
        .filter(|path| path.is_absolute() && fs::DirBuilder::new().recursive(true).mode(0o700).create(path).is_ok());
    made.unwrap_or_else(|| fallback.to_owned())
}

/// Makes sure that the library is there. Gives its path. It stays: programs of a build may live
/// longer than the build, and what they start loads it again.
///
/// # Errors
/// The directory cannot be written.
pub(super) fn library(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join(format!("exec-hook-{:016x}.so", digest(LIBRARY)));
    if fs::read(&path).is_ok_and(|there| there == LIBRARY) {
        return Ok(path);
    }
    replace(&path, LIBRARY)?;
    Ok(path)
}

/// Reads what was learnt; nothing, if that cannot be read.
pub(super) fn programs(directory: &Path) -> Programs {
    let path = directory.join(PROGRAMS);
    let small = fs::metadata(&path).is_ok_and(|about| about.len() <= PROGRAMS_BYTES);
    let read = small.then(|| fs::read(&path).ok()).flatten();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Keeps what was learnt.
///
/// # Errors
/// The directory cannot be written.
pub(super) fn keep(directory: &Path, programs: &Programs) -> io::Result<()> {
    replace(&directory.join(PROGRAMS), &serde_json::to_vec(programs)?)
}

/// Writes a file beside, and puts it in place: others never see a part of it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension(format!("new{}", std::process::id()));
    fs::write(&beside, bytes)?;
    fs::rename(&beside, path)
}

/// FNV-1a: tells one build of the library from another.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_written_once_and_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let path = library(dir.path()).unwrap();
        assert!(LIBRARY.starts_with(b"\x7fELF") && fs::read(&path).unwrap() == LIBRARY);
        fs::write(&path, "damaged").unwrap();
        assert_eq!(library(dir.path()).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
    }

    #[test]
    fn what_was_learnt_is_read_again_or_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let mut programs = Programs::default();
        programs.note("simulate", 7000);
        keep(dir.path(), &programs).unwrap();
        assert_eq!(self::programs(dir.path()), programs);
        fs::write(dir.path().join(PROGRAMS), "{").unwrap();
        assert_eq!(self::programs(dir.path()), Programs::default());
    }
}
