//! Files that processes have mapped: their programs and libraries, as the process sees them.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use super::processes::open_file;
use crate::parse::proc_maps::{self, Mapping};

/// Longer files are no programs or libraries that are looked into.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A program that a process executes, to tell it from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// When the process began.
    pub began: u64,
    path: PathBuf,
}

/// Gives the program that a process executes; `None`: the process has ended.
pub fn program_of(pid: i32) -> Option<Program> {
    let began = os::process::began(pid).ok()?;
    // A program that may not be seen has no path; that it is so is found when it is looked at.
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    Some(Program { began, path })
}

/// Lists what a process has mapped.
pub fn mappings(pid: i32) -> Result<Vec<Mapping>> {
    let path = format!("/proc/{pid}/maps");
    let text = fs::read_to_string(&path).map_err(|e| Error::new(format!("read {path}"), e))?;
    Ok(proc_maps::read(&text))
}

/// Finds a library by the beginning of its name.
pub fn library<'a>(mappings: &'a [Mapping], name: &str) -> Option<&'a Mapping> {
    let is_named = |path: &str| Path::new(path).file_name().is_some_and(|own| own.to_string_lossy().starts_with(name));
    mappings.iter().find(|mapping| is_named(&mapping.path))
}

/// Gives the address at which a file begins in memory.
pub fn start(mappings: &[Mapping], path: &str) -> Option<u64> {
    mappings.iter().filter(|m| m.path == path && m.offset == 0).map(|m| m.start).min()
}

/// A file, as long as it is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    device: u64,
    inode: u64,
    changed: i64,
}

/// A file that a process has mapped, open.
#[derive(Debug)]
pub struct MappedFile {
    /// Tells the file from others.
    pub key: FileKey,
    file: File,
    doing: String,
}

impl MappedFile {
    /// Opens a file by its path, as the process sees it.
    pub fn open(pid: i32, path: &str) -> Result<MappedFile> {
        let doing = format!("read {path} of process {pid}");
        let failed = |e| Error::new(doing.clone(), e);
        let file = open_file(Path::new(&format!("/proc/{pid}/root{path}"))).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let key = FileKey { device: about.dev(), inode: about.ino(), changed: about.mtime() };
        Ok(MappedFile { key, file, doing })
    }

    /// Reads the file.
    pub fn content(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|e| Error::new(self.doing, e))?;
        Ok(bytes)
    }
}
