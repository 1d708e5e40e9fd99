//! What of the machine is ours, and how busy it is: quotas and limits of the control groups that
//! hold this process (cgroups(7)), runnable tasks, stolen time and memory pressure (proc(5),
//! `Documentation/accounting/psi.rst`).

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::cgroup::{Hierarchy, detect};

/// Inode of the first PID namespace (`PROC_PID_INIT_INO` in the kernel's include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Limits above this are none, bytes.
const NO_LIMIT_BYTES: u64 = 1 << 60;
/// Most that is read of a file, bytes: what is looked for is near the beginning.
const READ_BYTES: usize = 4096;

/// Where the files are; looked up once.
#[derive(Clone, Debug, Default)]
pub struct Share {
    cpu: Vec<Place>,
    memory: Vec<Place>,
    /// Other processes than those we see count in the machine's load average.
    apart: bool,
    /// Device and inode of this program's file.
    program: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Place {
    dir: PathBuf,
    unified: bool,
}

/// Memory of a control group, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The most that may be used.
    pub limit: u64,
    /// Used, without file pages that have not been used lately.
    pub used: u64,
}

impl Share {
    /// Finds the groups that hold this process, as far as they are seen from here.
    pub fn find() -> Share {
        let hierarchies = detect().unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Share {
            cpu: places(&hierarchies, "cpu"),
            memory: places(&hierarchies, "memory"),
            apart: namespace.as_os_str() != FIRST_PID_NAMESPACE,
            program: program(Path::new("/proc/self")),
        }
    }

    /// Gives the tightest CPU quota, thousandths of one CPU; none if there is none.
    pub fn cpu_quota_milli(&self) -> Option<u32> {
        self.cpu.iter().filter_map(quota_milli).min()
    }

    /// Gives the group in which least memory is left.
    pub fn memory(&self) -> Option<Memory> {
        self.memory.iter().filter_map(memory).min_by_key(|m| m.limit.saturating_sub(m.used))
    }

    /// Tasks that run or could run, the caller not counted. In a PID namespace of its own (a
    /// container) the machine's count says nothing of what is ours: the tasks that are seen are
    /// looked at, but for those of this very program: where a quota is small, they wait for it as
    /// others do, and would be taken for work.
    pub fn runnable(&self) -> u32 {
        let counted = if self.apart { None } else { running(&text(Path::new("/proc/loadavg"))) };
        counted.map_or_else(|| running_tasks(self.program), |all| all.saturating_sub(1))
    }

    /// Share of time in which some task waited for memory, over ten seconds, thousandths; 0 where
    /// the kernel does not tell.
    pub fn memory_pressure_milli(&self) -> u32 {
        let own = self.memory.iter().find(|p| p.unified).map(|p| p.dir.join("memory.pressure"));
        let own = own.map(|path| text(&path)).filter(|t| !t.is_empty());
        pressure_milli(&own.unwrap_or_else(|| text(Path::new("/proc/pressure/memory"))))
    }
}

/// CPU time of all CPUs since boot and, of it, the time that a hypervisor gave to others; clock
/// ticks.
pub fn stolen() -> Option<(u64, u64)> {
    let text = text(Path::new("/proc/stat"));
    let ticks: Vec<u64> = text.lines().next()?.split_whitespace().skip(1).filter_map(|w| w.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user.
    Some((ticks.get(..8)?.iter().sum(), ticks[7]))
}

fn places(hierarchies: &[Hierarchy], controller: &str) -> Vec<Place> {
    let Some(found) = hierarchies.iter().find(|h| h.controllers.iter().any(|c| c == controller)) else {
        return Vec::new();
    };
    let is_group = |dir: &&Path| dir.join("cgroup.procs").exists();
    let dirs = found.own.ancestors().take_while(is_group);
    dirs.map(|dir| Place { dir: dir.to_owned(), unified: found.unified }).collect()
}

fn quota_milli(place: &Place) -> Option<u32> {
    let (quota, period) = if place.unified {
        let text = text(&place.dir.join("cpu.max"));
        let (quota, period) = text.trim().split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        // -1 is no quota.
        (number(&place.dir, "cpu.cfs_quota_us")?, number(&place.dir, "cpu.cfs_period_us")?)
    };
    u32::try_from(quota.checked_mul(1000)? / period.max(1)).ok().filter(|milli| *milli > 0)
}

fn memory(place: &Place) -> Option<Memory> {
    let (limit, used, inactive) = match place.unified {
        true => ("memory.max", "memory.current", "inactive_file"),
        false => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    };
    let limit = number(&place.dir, limit).filter(|limit| *limit < NO_LIMIT_BYTES)?;
    let used = number(&place.dir, used)?;
    let stat = text(&place.dir.join("memory.stat"));
    let reclaimable = stat.lines().find_map(|l| l.strip_prefix(inactive)?.trim().parse::<u64>().ok()).unwrap_or(0);
    Some(Memory { limit, used: used.saturating_sub(reclaimable) })
}

/// Numerator of the fourth field: `0.20 0.18 0.12 1/80 11206`.
fn running(loadavg: &str) -> Option<u32> {
    loadavg.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

/// The threads of this very program are not even looked at: a room has dozens, and this is done
/// twice a second.
fn running_tasks(own: Option<(u64, u64)>) -> u32 {
    let numbered = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)).map(|e| e.path())
    };
    let mut count = 0u32;
    for process in numbered(Path::new("/proc")) {
        let Some((state, threads)) = state(&text(&process.join("stat"))) else { continue };
        if (threads <= 1 && state != 'R') || program(&process).is_some_and(|theirs| Some(theirs) == own) {
            continue;
        }
        let runs = |task: &PathBuf| state_of_task(task) == Some('R');
        let running = match threads {
            0..=1 => 1,
            _ => u32::try_from(numbered(&process.join("task")).filter(runs).count()).unwrap_or(u32::MAX),
        };
        count = count.saturating_add(running);
    }
    count
}

/// Tells which file a process runs.
fn program(process: &Path) -> Option<(u64, u64)> {
    fs::metadata(process.join("exe")).ok().map(|m| (m.dev(), m.ino()))
}

fn state_of_task(task: &Path) -> Option<char> {
    state(&text(&task.join("stat"))).map(|(state, _)| state)
}

/// State and number of threads, fields 3 and 20. The name, in parentheses, may hold anything.
fn state(stat: &str) -> Option<(char, u32)> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.nth(16)?.parse().ok()?))
}

/// `some avg10=1.23 ...`, per cent.
fn pressure_milli(text: &str) -> u32 {
    let share = text.lines().find_map(|l| l.strip_prefix("some avg10=")?.split(' ').next()?.parse::<f64>().ok());
    (share.unwrap_or(0.0).clamp(0.0, 100.0) * 10.0) as u32
}

fn number(dir: &Path, name: &str) -> Option<u64> {
    text(&dir.join(name)).trim().parse().ok()
}

/// Gives the beginning of a file of the kernel's, in as few calls as may be; empty if it cannot be
/// read.
fn text(path: &Path) -> String {
    let mut buffer = [0; READ_BYTES];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut buffer)).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running(""), None);
        assert_eq!(pressure_milli("some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=9"), 125);
        assert_eq!(pressure_milli(""), 0);
        let stat = "7 (a) R b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 99";
        assert_eq!(state(stat), Some(('S', 3)));
    }

    #[test]
    fn quotas_and_limits_of_both_versions() {
        let dir = std::env::temp_dir().join(format!("tern-share-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        let place = |unified| Place { dir: dir.clone(), unified };
        write("cpu.max", "50000 100000\n");
        assert_eq!(quota_milli(&place(true)), Some(500));
        write("cpu.max", "max 100000\n");
        assert_eq!(quota_milli(&place(true)), None);
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "10000\n");
        assert_eq!(quota_milli(&place(false)), None);
        write("cpu.cfs_quota_us", "2000\n");
        assert_eq!(quota_milli(&place(false)), Some(200));
        write("memory.max", "max\n");
        assert_eq!(memory(&place(true)), None);
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 5\ninactive_file 200\n");
        assert_eq!(memory(&place(true)), Some(Memory { limit: 1000, used: 500 }));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn busy_programs_are_counted_but_this_one_is_not() {
        let share = Share { apart: true, ..Share::find() };
        let busy = || std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut busy: Vec<_> = (0..3).map(|_| busy()).collect();
        let seen = (0..200).any(|_| share.runnable() >= 3);
        busy.iter_mut().for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).unwrap());
        assert!(seen);
        assert_eq!(program(Path::new("/proc/thread-self")), share.program);
        assert!(stolen().is_some_and(|(all, stolen)| all > stolen));
    }
}
