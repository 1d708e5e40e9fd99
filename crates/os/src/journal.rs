//! Small files of what has happened to processes: one for each, named by its number and its start
//! time, in one directory. Several programs append to them.
//!
//! A file is a row of records: two bytes of length, little-endian, and so many bytes. It holds as
//! many as fit; then the older half goes.

use crate::{Error, Result, process};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The most that one process' file holds, bytes.
const FILE_BYTES_MAX: u64 = 32 << 10;
/// When so many files are there, those of processes that have ended are removed.
const FILES_SWEPT_FROM: usize = 256;

/// Appends a record about process `pid`, which runs.
///
/// # Errors
/// The process has ended, or the file cannot be written.
pub fn append(directory: &Path, pid: i32, record: &[u8]) -> Result<()> {
    let path = file_of(directory, pid)?;
    let length = u16::try_from(record.len()).map_err(|_| {
        Error::new(
            format!("a record of {} bytes", record.len()),
            std::io::Error::from(std::io::ErrorKind::InvalidInput),
        )
    })?;
    let written = || {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let options = || OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path);
        let mut file = options()?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        let bytes = file.metadata()?.len();
        if bytes == 0 {
            sweep(directory);
        }
        if bytes + record.len() as u64 + 2 > FILE_BYTES_MAX {
            forget_half(&mut file)?;
        }
        file.write_all(&[&length.to_le_bytes(), record].concat())
    };
    written().map_err(|e| Error::new(format!("writing {}", path.display()), e))
}

/// Gives the records about process `pid`, which runs, oldest first; none if there is no file.
pub fn read(directory: &Path, pid: i32) -> Vec<Vec<u8>> {
    let Ok(path) = file_of(directory, pid) else { return Vec::new() };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(2 * FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_or_else(|_| Vec::new(), |_| records(&bytes).map(<[u8]>::to_vec).collect())
}

fn file_of(directory: &Path, pid: i32) -> Result<PathBuf> {
    Ok(directory.join(format!("{pid}-{}", process::began(pid)?)))
}

fn records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (record, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        bytes = rest;
        Some(record)
    })
}

fn forget_half(file: &mut File) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::by_ref(file).take(2 * FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    let all: Vec<&[u8]> = records(&bytes).collect();
    let kept = all[all.len() / 2..].iter().map(|record| [&(record.len() as u16).to_le_bytes(), *record].concat());
    let kept: Vec<u8> = kept.flatten().collect();
    file.set_len(0)?;
    file.write_all(&kept)
}

/// Removes the files of processes that have ended, if there are many. What cannot be removed is
/// tried again next time.
fn sweep(directory: &Path) {
    let files: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if files.len() < FILES_SWEPT_FROM {
        return;
    }
    let lives = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.split_once('-').and_then(|(pid, _)| pid.parse().ok());
        pid.and_then(|pid| file_of(directory, pid).ok()).is_some_and(|of_now| of_now == *path)
    };
    for ended in files.iter().filter(|path| !lives(path)) {
        let _ = std::fs::remove_file(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_the_oldest_go_first() {
        let directory = std::env::temp_dir().join(format!("tern-journal-{}", std::process::id()));
        let pid = std::process::id() as i32;
        assert!(read(&directory, pid).is_empty());
        append(&directory, pid, b"first").unwrap();
        append(&directory, pid, b"").unwrap();
        assert_eq!(read(&directory, pid), [b"first".to_vec(), Vec::new()]);
        (0..200).for_each(|n| append(&directory, pid, &[n; 1000]).unwrap());
        let kept = read(&directory, pid);
        assert!((10..40).contains(&kept.len()) && kept.last().unwrap()[0] == 199, "{}", kept.len());
        assert!(std::fs::metadata(file_of(&directory, pid).unwrap()).unwrap().len() <= FILE_BYTES_MAX);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_ended_processes_left_is_removed() {
        let directory = std::env::temp_dir().join(format!("tern-journal-swept-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        // PID 1 did not begin then.
        (0..FILES_SWEPT_FROM)
            .for_each(|n| std::fs::write(directory.join(format!("1-{}", n + 1_000_000)), "x").unwrap());
        append(&directory, std::process::id() as i32, b"x").unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
