//! Files of the state directory: the directory has mode 0700 and every file 0600, and each file is
//! written completely or not at all.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// The default state directory.
pub const DEFAULT_DIR: &str = "/var/lib/tern";
/// The largest file that is read, bytes.
const FILE_MAX: u64 = 1 << 20;

/// Access to the state directory.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

impl Store {
    pub(crate) fn new(dir: &Path) -> Store {
        Store { dir: dir.to_path_buf() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Creates the directory (and its parents) if it is missing.
    pub(crate) fn create(&self, sub: &str) -> Result<PathBuf, Error> {
        let dir = self.path(sub);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|e| Error::file("create", &dir, e))?;
        Ok(dir)
    }

    /// Writes `bytes` to a temporary file and renames it, so that a reader sees the old or the new
    /// content.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        // Concurrent writers use different temporary files: the last rename wins, with a complete
        // file.
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let temporary = self.path(&format!("{name}.{}-{number}.new", std::process::id()));
        let result = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
        if result.is_err() {
            // Best effort: the first error matters.
            let _ = fs::remove_file(&temporary);
        }
        result.map_err(|e| Error::file("write", &path, e))
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.path(name);
        let about = fs::metadata(&path).map_err(|e| Error::file("read", &path, e))?;
        if about.len() > FILE_MAX {
            return Err(Error::file("read", &path, io::Error::other("larger than any file of tern")));
        }
        fs::read(&path).map_err(|e| Error::file("read", &path, e))
    }

    /// Reads a secret; refuses it if users other than its owner may read it.
    pub(crate) fn read_secret(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.path(name);
        let mode = fs::metadata(&path).map_err(|e| Error::file("read", &path, e))?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(Error::Exposed { path, mode });
        }
        self.read(name)
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Removes a file, which may be absent. Returns whether this call removed it.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, Error> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::file("remove", &path, e)),
        }
    }

    pub(crate) fn list(&self, sub: &str) -> Result<Vec<String>, Error> {
        let dir = self.path(sub);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::file("list", &dir, e)),
        };
        Ok(entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect())
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
