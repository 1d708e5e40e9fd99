//! Control groups, version 1 and 2: limits for a room or a node, and what it used (cgroups(7),
//! `Documentation/admin-guide/cgroup-v2.rst`).
//!
//! A group is named by a path below the group that this process is in, so that whatever limits the
//! daemon limits its guests as well. Attach one process and let the others be born in the group:
//! each attachment takes a lock over all forks of the machine.

mod frozen;
mod hierarchy;
mod subgroup;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use frozen::Frozen;
pub use hierarchy::{Hierarchy, detect};
pub use subgroup::{Lever, Subgroup, Tree, real_time_share};

use crate::{Error, Result};

/// The controllers of use here. `cpuacct` is part of `cpu` in version 2, where every group has a
/// freezer.
pub const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "freezer"];

/// Period of a CPU quota: with the kernel's default of 100 ms small shares come out 15% short.
pub const CPU_PERIOD_US: u64 = 10_000;

/// The kernel takes no smaller quota (`min_cfs_quota_period`).
const CPU_QUOTA_MIN_US: u64 = 1_000;

/// Where processes are that would stand in the way of groups beside them: of a version 2 group's
/// controllers; and a group beside processes gets next to nothing where both have a quota in common
/// (seen with version 1 on Linux 6.18).
pub const LEAF: &str = "tern-main";

/// What a group may use. `None`: no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Memory, swap included where that is counted, bytes.
    pub memory_bytes: Option<u64>,
    /// CPU time, thousandths of one CPU.
    pub cpu_milli: Option<u64>,
    /// Share of the CPUs while others want them too: 100 is what a group has by default, 1 to
    /// 10000.
    pub cpu_weight: Option<u64>,
}

/// What a group uses. `None`: no controller counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Memory, page cache included, bytes.
    pub memory_bytes: Option<u64>,
    /// CPU time so far, microseconds.
    pub cpu_us: Option<u64>,
}

/// A group in every hierarchy that has a controller of use. Dropping it removes it if it is empty,
/// and never kills.
#[derive(Debug)]
pub struct Group {
    parts: Vec<Part>,
    keep: bool,
}

#[derive(Debug)]
struct Part {
    unified: bool,
    controllers: Vec<String>,
    dir: PathBuf,
}

impl Part {
    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|c| c == controller)
    }
}

impl Group {
    /// Creates the group `path` (or takes the one that is there), below this process' own, and sets
    /// its limits.
    ///
    /// # Errors
    /// `path` is not a plain relative path; a limit is given that no controller here can keep; the
    /// kernel refuses (not the owner; in version 2: processes of others in the way, `EBUSY`).
    pub fn create(path: &str, limits: &Limits) -> Result<Group> {
        let group = Group::at(path)?;
        for part in &group.parts {
            std::fs::create_dir_all(&part.dir).map_err(|e| Error::new(format!("create {}", part.dir.display()), e))?;
        }
        group.enable(path)?;
        group.limit(limits)?;
        Ok(group)
    }

    /// Opens the group `path` as another process left it. The group is kept when this value goes.
    ///
    /// # Errors
    /// As for [`Group::create`]; there is none.
    pub fn open(path: &str) -> Result<Group> {
        let mut group = Group::at(path)?;
        group.keep = true;
        match group.parts.iter().find(|part| !part.dir.is_dir()) {
            Some(part) => Err(Error::new(format!("open {}", part.dir.display()), ErrorKind::NotFound)),
            None => Ok(group),
        }
    }

    fn at(path: &str) -> Result<Group> {
        let plain = |c: &str| !c.is_empty() && !c.starts_with('.') && !c.contains('\0');
        if !path.split('/').all(plain) {
            return Err(Error::new(
                format!("control group {path:?}: not a plain relative path"),
                ErrorKind::InvalidInput,
            ));
        }
        let part = |h: Hierarchy| Part { unified: h.unified, controllers: h.controllers, dir: h.own.join(path) };
        Ok(Group { parts: detect()?.into_iter().map(part).collect(), keep: false })
    }

    /// Version 2: a group has the controllers that its parent hands down.
    fn enable(&self, path: &str) -> Result<()> {
        let depth = path.split('/').count();
        for part in self.parts.iter().filter(|part| part.unified) {
            let wanted: Vec<String> = part.controllers.iter().map(|c| format!("+{c}")).collect();
            let parents: Vec<&Path> = part.dir.ancestors().skip(1).take(depth).collect();
            for (at, parent) in parents.into_iter().rev().enumerate() {
                hand_down(parent, &wanted.join(" "), at == 0)?;
            }
        }
        Ok(())
    }

    /// Sets limits anew; what is `None` stays as it is.
    ///
    /// # Errors
    /// No controller here can keep it, or the kernel refuses the value.
    pub fn limit(&self, limits: &Limits) -> Result<()> {
        if let Some(pids) = limits.pids {
            self.set("pids", |_| vec![("pids.max", pids.to_string())])?;
        }
        if let Some(bytes) = limits.memory_bytes {
            self.set("memory", |unified| {
                let names = if unified { ["memory.max"].as_slice() } else { &["memory.limit_in_bytes"] };
                names.iter().map(|name| (*name, bytes.to_string())).collect()
            })?;
            self.without_swap(bytes)?;
        }
        if let Some(milli) = limits.cpu_milli {
            let quota_us = (milli * CPU_PERIOD_US / 1000).max(CPU_QUOTA_MIN_US);
            self.set("cpu", |unified| match unified {
                true => vec![("cpu.max", format!("{quota_us} {CPU_PERIOD_US}"))],
                false => {
                    vec![("cpu.cfs_period_us", CPU_PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())]
                }
            })?;
        }
        if let Some(weight) = limits.cpu_weight {
            // In version 1 the default is 1024 shares.
            self.set("cpu", |unified| match unified {
                true => vec![("cpu.weight", weight.to_string())],
                false => vec![("cpu.shares", (weight * 1024 / 100).to_string())],
            })?;
        }
        Ok(())
    }

    /// Swap must not be a way around the memory limit, where the kernel counts it at all.
    fn without_swap(&self, bytes: u64) -> Result<()> {
        for part in self.parts.iter().filter(|part| part.has("memory")) {
            let (name, value) = match part.unified {
                true => ("memory.swap.max", "0".to_string()),
                false => ("memory.memsw.limit_in_bytes", bytes.to_string()),
            };
            if part.dir.join(name).exists() {
                write(&part.dir.join(name), &value)?;
            }
        }
        Ok(())
    }

    fn set(&self, controller: &str, values: impl Fn(bool) -> Vec<(&'static str, String)>) -> Result<()> {
        let Some(part) = self.parts.iter().find(|part| part.has(controller)) else {
            let doing = format!("limit by controller {controller}: no control-group hierarchy here has it");
            return Err(Error::new(doing, ErrorKind::Unsupported));
        };
        values(part.unified).iter().try_for_each(|(name, value)| write(&part.dir.join(name), value))
    }

    /// Puts a process with all its threads into the group; 0 is the caller.
    ///
    /// # Errors
    /// There is no such process; the group is full; the kernel refuses.
    pub fn attach(&self, pid: i32) -> Result<()> {
        self.parts.iter().try_for_each(|part| write(&part.dir.join("cgroup.procs"), &pid.to_string()))
    }

    /// Tells what the group uses now.
    pub fn usage(&self) -> Usage {
        let number = |controller: &str, v1: &str, v2: &str| {
            let part = self.parts.iter().find(|part| part.has(controller))?;
            let text = std::fs::read_to_string(part.dir.join(if part.unified { v2 } else { v1 })).ok()?;
            let value = text.split_whitespace().find_map(|word| word.parse::<u64>().ok())?;
            Some((value, part.unified))
        };
        Usage {
            pids: number("pids", "pids.current", "pids.current").map(|(n, _)| n),
            memory_bytes: number("memory", "memory.usage_in_bytes", "memory.current").map(|(n, _)| n),
            cpu_us: number("cpuacct", "cpuacct.usage", "cpu.stat")
                .or_else(|| number("cpu", "cpuacct.usage", "cpu.stat"))
                .map(|(n, unified)| if unified { n } else { n / 1000 }),
        }
    }

    /// Tells how many processes and threads may still be made in the group, as it and those above
    /// it are limited. `None`: nothing limits them.
    pub fn free_tasks(&self) -> Option<u64> {
        let part = self.parts.iter().find(|part| part.has("pids"))?;
        let number = |file: PathBuf| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
        let free = |dir: &Path| Some(number(dir.join("pids.max"))?.saturating_sub(number(dir.join("pids.current"))?));
        part.dir.ancestors().filter_map(free).min()
    }

    /// Tells how many processes of the group the kernel has killed for want of memory. `None`: no
    /// controller counts them.
    pub fn killed_for_memory(&self) -> Option<u64> {
        let part = self.parts.iter().find(|part| part.has("memory"))?;
        let file = part.dir.join(if part.unified { "memory.events" } else { "memory.oom_control" });
        let text = std::fs::read_to_string(file).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    /// Gives the processes in the group, by the numbers of this PID namespace (0: of another).
    pub fn processes(&self) -> Vec<i32> {
        let Some(part) = self.parts.first() else { return Vec::new() };
        processes(&part.dir)
    }

    /// Kills what is in the group, and removes it. Groups below it must have been removed before.
    ///
    /// # Errors
    /// It is not empty after `patience`, for example because a process cannot die or is traced.
    pub fn end(mut self, patience: Duration) -> Result<()> {
        self.keep = true;
        let deadline = Instant::now() + patience;
        loop {
            self.kill();
            match self.remove_now() {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn kill(&self) {
        for part in &self.parts {
            if part.unified && std::fs::write(part.dir.join("cgroup.kill"), "1").is_ok() {
                continue;
            }
            for pid in processes(&part.dir).into_iter().filter(|&pid| pid > 0) {
                // SAFETY: sends a signal, touches no memory. A process that is gone meanwhile is
                // what is wanted.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
    }

    /// Freezes the processes of this group, and of those below it, until the result goes. A frozen
    /// process neither runs nor notices; a tracer's request to stop it holds before its next
    /// instruction. Processes that wait in the kernel freeze when they have waited.
    ///
    /// # Errors
    /// The group has no freezer, or the kernel refuses.
    pub fn freeze(&self) -> Result<Frozen> {
        let frozen = self.freezer();
        let frozen = frozen.ok_or_else(|| Error::new("freeze: no freezer here", ErrorKind::Unsupported))?;
        frozen.freeze()
    }

    /// Thaws what a process that died has left frozen.
    pub fn thaw(&self) {
        drop(self.freezer());
    }

    fn freezer(&self) -> Option<Frozen> {
        let of_version_1 = self.parts.iter().find(|part| !part.unified && part.has("freezer"));
        let part = of_version_1.or_else(|| self.parts.iter().find(|part| part.unified))?;
        Some(Frozen::of(&part.dir, part.unified))
    }

    /// Leaves the group in place when this value goes.
    pub fn keep(mut self) {
        self.keep = true;
    }

    fn remove_now(&self) -> Result<()> {
        for part in &self.parts {
            match std::fs::remove_dir(&part.dir) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(Error::new(format!("remove {}", part.dir.display()), e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.keep {
            // Whoever wants to know calls `end`.
            let _ = self.remove_now();
        }
    }
}

/// Hands controllers of a version 2 group down to its children. In this program's own group its
/// processes may stand in the way (only leaves hold processes): they move to a leaf.
fn hand_down(parent: &Path, controllers: &str, own: bool) -> Result<()> {
    let file = parent.join("cgroup.subtree_control");
    match write(&file, controllers) {
        Err(error) if own && error.errno() == libc::EBUSY => {
            let leaf = parent.join(LEAF);
            std::fs::create_dir_all(&leaf).map_err(|e| Error::new(format!("create {}", leaf.display()), e))?;
            let program = std::fs::read_link("/proc/self/exe").ok();
            let ours = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).ok() == program;
            for pid in processes(parent).into_iter().filter(ours) {
                write(&leaf.join("cgroup.procs"), &pid.to_string())?;
            }
            write(&file, controllers)
        }
        result => result,
    }
}

fn processes(dir: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn write(file: &Path, value: &str) -> Result<()> {
    std::fs::write(file, value).map_err(|e| Error::new(format!("write {value} to {}", file.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 2 with whatever controller is left to it: on a machine where version 1 has those
    /// that are used, this is `hugetlb`.
    #[test]
    fn version_2_hands_down_attaches_kills_and_removes() {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let Some(root) =
            mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4))
        else {
            eprintln!("no version 2 here");
            return;
        };
        let offered = std::fs::read_to_string(Path::new(root).join("cgroup.controllers")).unwrap();
        let controllers: Vec<String> = offered.split_whitespace().take(1).map(String::from).collect();
        let path = format!("tern-test-v2-{}/child", std::process::id());
        let group = |path: &str| {
            let part = Part { unified: true, controllers: controllers.clone(), dir: Path::new(root).join(path) };
            Group { parts: vec![part], keep: false }
        };
        let (parent, child) = (group(path.strip_suffix("/child").unwrap()), group(&path));
        std::fs::create_dir_all(&child.parts[0].dir).unwrap();
        let before = std::fs::read_to_string(Path::new(root).join("cgroup.subtree_control")).unwrap();
        child.enable(&path).unwrap();
        let handed = std::fs::read_to_string(child.parts[0].dir.join("cgroup.controllers")).unwrap();
        assert_eq!(handed.trim(), controllers.join(" "));
        let mut sleeper = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        child.attach(sleeper.id() as i32).unwrap();
        assert_eq!(child.processes(), [sleeper.id() as i32]);
        child.end(Duration::from_secs(20)).unwrap();
        assert!(!sleeper.wait().unwrap().success());
        parent.end(Duration::from_secs(20)).unwrap();
        if !before.contains(controllers[0].as_str()) {
            write(&Path::new(root).join("cgroup.subtree_control"), &format!("-{}", controllers[0])).unwrap();
        }
    }
}
