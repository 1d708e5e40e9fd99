//! CPU time that processes of this home have used on other nodes. While one is at home, nothing of
//! it is left there but this note, for when it goes away again, by whichever steward: home's kernel
//! cannot be told what to add.

use image::{Image, Used};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a process has used away.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// When it began, ticks: with its number, which process it is.
    began: u64,
    process: Used,
    /// By TID, nanoseconds.
    threads: Vec<(i32, u64)>,
}

impl Away {
    /// As the image of process `pid` says.
    pub fn of(pid: i32, image: &Image) -> os::Result<Away> {
        let threads = image.threads.iter().map(|t| (t.tid, t.used_away_ns)).collect();
        Ok(Away { began: os::process::began(pid)?, process: image.process.used_away, threads })
    }

    /// Notes it, and forgets those that have ended.
    pub fn keep(&self, run_dir: &Path, pid: i32) {
        let directory = directory(run_dir);
        let written = || {
            std::fs::create_dir_all(&directory)?;
            for entry in std::fs::read_dir(&directory)?.flatten() {
                let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
                if number.is_none_or(|pid| os::process::began(pid).is_err()) {
                    std::fs::remove_file(entry.path())?;
                }
            }
            let bytes = postcard::to_stdvec(self).map_err(std::io::Error::other)?;
            std::fs::write(directory.join(pid.to_string()), bytes)
        };
        if let Err(e) = written() {
            tracing::warn!("what process {pid} used away is not noted in {}: {e}", directory.display());
        }
    }

    fn noted(run_dir: &Path, pid: i32) -> Option<Away> {
        let bytes = std::fs::read(directory(run_dir).join(pid.to_string())).ok()?;
        let away: Away = postcard::from_bytes(&bytes).ok()?;
        (os::process::began(pid).ok()? == away.began).then_some(away)
    }
}

fn directory(run_dir: &Path) -> PathBuf {
    run_dir.join("used")
}

/// Adds what process `pid` had used away before to its image, which says what it used here.
pub fn add(run_dir: &Path, pid: i32, image: &mut Image) {
    let Some(away) = Away::noted(run_dir, pid) else { return };
    image.process.used_away = away.process;
    image.process.used = image.process.used.and(away.process);
    for (tid, ns) in away.threads {
        if let Some(thread) = image.threads.iter_mut().find(|t| t.tid == tid) {
            (thread.used_away_ns, thread.used_ns) = (ns, thread.used_ns.saturating_add(ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_away_is_added_later() {
        let name = format!("tern-used-{}", std::process::id());
        let run_dir = std::env::temp_dir().join(name);
        let pid = std::process::id() as i32;
        let mut image = Image::default();
        image.threads.push(image::Thread { tid: pid, used_ns: 9, used_away_ns: 5, ..Default::default() });
        image.process.used_away = Used { user_ns: 4, system_ns: 3 };
        Away::of(pid, &image).unwrap().keep(&run_dir, pid);
        let mut next = Image::default();
        next.process.used = Used { user_ns: 10, system_ns: 10 };
        next.threads.push(image::Thread { tid: pid, used_ns: 20, ..Default::default() });
        add(&run_dir, pid, &mut next);
        assert_eq!(next.process.used, Used { user_ns: 14, system_ns: 13 });
        assert_eq!((next.threads[0].used_ns, next.threads[0].used_away_ns), (25, 5));
        // Another process of that number.
        std::fs::write(directory(&run_dir).join("1"), postcard::to_stdvec(&Away::of(pid, &image).unwrap()).unwrap())
            .unwrap();
        let mut other = Image::default();
        add(&run_dir, 1, &mut other);
        assert_eq!(other.process.used, Used::default());
        std::fs::remove_dir_all(&run_dir).unwrap();
    }
}
