//! The library that tasks preload, and the file that tells them what to do.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The library, as it was built with this program (`blobs/cosched-hook`).
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cosched-hook.so"));
/// The variable that names the file.
const VARIABLE: &str = "TERN_COSCHED";
const PRELOAD: &str = "LD_PRELOAD";

/// The library and the file that a job's first process hands to its tasks.
#[derive(Debug)]
pub struct Preload {
    library: PathBuf,
    /// File that tells the tasks what to do.
    pub control: PathBuf,
}

impl Preload {
    /// Makes sure that the library is in this directory, where it stays: tasks may start others
    /// later.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn prepare(directory: &Path) -> io::Result<Preload> {
        let library = directory.join(format!("cosched-hook-{:016x}.so", digest(LIBRARY)));
        if !fs::read(&library).is_ok_and(|there| there == LIBRARY) {
            // Others never see a part of it.
            let draft = library.with_extension(format!("new{}", std::process::id()));
            fs::write(&draft, LIBRARY)?;
            fs::set_permissions(&draft, fs::Permissions::from_mode(0o644))?;
            fs::rename(&draft, &library)?;
        }
        Ok(Preload { library, control: directory.join(format!("cosched-{}.mode", std::process::id())) })
    }

    /// Gives the variables by which a program, and what it starts, load the library first.
    pub fn environment(&self) -> [(OsString, OsString); 2] {
        let mut libraries = OsString::from(&self.library);
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        [(PRELOAD.into(), libraries), (VARIABLE.into(), self.control.clone().into())]
    }
}

/// FNV-1a: tells one build of the library from another.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
