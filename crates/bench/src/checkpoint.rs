//! Writing processes to disk, for comparison with moves.

use crate::Error;
use crate::pair::Done;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const BLOCK_BYTES: usize = 1 << 20;
/// A quarter of a gigabyte tells the speed of a disk.
const DISK_BLOCKS: usize = 256;

/// Writes all processes that run this program to files in `dir`, concurrently.
pub fn all(program: &Path, dir: &Path) -> Result<Vec<Done>, Error> {
    let pids = processes_of(program);
    std::thread::scope(|scope| {
        let path = |pid: i32| dir.join(format!("tern-checkpoint-{pid}"));
        let threads: Vec<_> = pids.iter().map(|pid| scope.spawn(move || one(*pid, &path(*pid)))).collect();
        let panicked = || Error::system("writing checkpoints")(std::io::ErrorKind::Other.into());
        threads.into_iter().map(|thread| thread.join().map_err(|_| panicked())?).collect()
    })
}

/// Measures the rate of writing a file in `dir` alone until it is on disk, MB/s.
pub fn disk_mb_s(dir: &Path) -> Result<f64, Error> {
    let path = dir.join(format!("tern-disk-{}", std::process::id()));
    let write = || -> std::io::Result<f64> {
        let block: Vec<u8> = (0..BLOCK_BYTES).map(|i| ((i * 31) >> 3) as u8).collect();
        let begun = Instant::now();
        let mut file = File::create(&path)?;
        (0..DISK_BLOCKS).try_for_each(|_| file.write_all(&block))?;
        file.sync_all()?;
        Ok((DISK_BLOCKS * BLOCK_BYTES) as f64 / begun.elapsed().as_secs_f64() / 1e6)
    };
    let written = write().map_err(Error::system(format!("writing {}", path.display())));
    let _ = std::fs::remove_file(&path);
    written
}

/// Lists the processes by their ids on this machine, in whatever namespace they are.
fn processes_of(program: &Path) -> Vec<i32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let runs = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|b| *b == 0).next() == Some(program.as_os_str().as_bytes())
    };
    pids.filter(runs).collect()
}

/// Writes all private memory of a process to a file, which is on disk when this returns. The
/// process is stopped meanwhile.
fn one(pid: i32, path: &Path) -> Result<Done, Error> {
    let begun = Instant::now();
    // SAFETY: no memory is passed; the process ends only when this program says so.
    let signal = |signal| unsafe { libc::kill(pid, signal) };
    signal(libc::SIGSTOP);
    let written = write_memory(pid, path);
    signal(libc::SIGCONT);
    let us = begun.elapsed().as_secs_f64() * 1e6;
    let bytes = written.map_err(Error::system(format!("writing a checkpoint to {}", path.display())))?;
    let _ = std::fs::remove_file(path);
    Ok(Done { bytes, us, still_us: us })
}

fn write_memory(pid: i32, path: &Path) -> std::io::Result<u64> {
    let mut file = File::create(path)?;
    let mut bytes = 0;
    each_block(
        pid,
        |_| true,
        |block| {
            bytes += block.len() as u64;
            file.write_all(block)
        },
    )?;
    file.sync_all()?;
    Ok(bytes)
}

/// Gives the private memory of a process to `to`, in areas whose line in its maps is wanted.
pub fn each_block(
    pid: i32,
    wanted: impl Fn(&str) -> bool,
    mut to: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut buffer = vec![0; BLOCK_BYTES];
    for line in maps.lines().filter(|line| line.contains(" rw-p ") && wanted(line)) {
        let ends = line.split(' ').next().and_then(|range| range.split_once('-'));
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
        let Some((mut at, end)) = ends.map(|(start, end)| (hex(start), hex(end))) else { continue };
        while at < end {
            let now = (end - at).min(BLOCK_BYTES as u64) as usize;
            memory.read_exact_at(&mut buffer[..now], at)?;
            to(&buffer[..now])?;
            at += now as u64;
        }
    }
    Ok(())
}
