//! Groups below those in which processes are already: whatever limits the processes goes on
//! limiting them, and no other process gets into the group.

use std::path::{Path, PathBuf};

use super::hierarchy::{mount, own_path, seen_at};
use crate::{Error, Result};

/// Shares of a version 1 group that comes before others, of which each has 1024: less than a thread
/// of the least nice value.
const SHARES: u64 = 65_536;
/// The shares that the kernel gives a new group.
const USUAL_SHARES: u64 = 1024;

/// The use of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// Its processes can stand still.
    Freeze,
    /// Its processes can have a larger share of the CPUs. Version 1 alone: in version 2, no group
    /// with the CPU controller may lie beside processes.
    Weigh,
}

/// A hierarchy with a lever.
#[derive(Clone, Debug)]
pub struct Tree {
    lever: Lever,
    unified: bool,
    /// The line of mountinfo.
    line: String,
}

impl Tree {
    /// Finds the hierarchy with this lever. For freezing version 2 comes first: its processes can
    /// be killed and traced while they stand still. `None`: this machine has none.
    ///
    /// # Errors
    /// `/proc/self/mountinfo` or `/proc/self/cgroup` cannot be read.
    pub fn with(lever: Lever) -> Result<Option<Tree>> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|e| Error::new(format!("read {path}"), e));
        let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        let found = |unified: bool| {
            // A hierarchy may be mounted several times, and not each mount shows the own part.
            let is_meant = |line: &&str| {
                mount(line).is_some_and(|mount| {
                    mount.unified == unified
                        && (unified || has(mount.options, lever))
                        && own_path(&own, &mount).and_then(|path| seen_at(&mount, path)).is_some()
                })
            };
            mounts.lines().find(is_meant).map(|line| Tree { lever, unified, line: line.to_owned() })
        };
        let unified = if lever == Lever::Freeze { found(true) } else { None };
        Ok(unified.or_else(|| found(false)))
    }

    /// Tells whether this is version 2.
    pub fn is_unified(&self) -> bool {
        self.unified
    }

    /// Finds the group of a process.
    ///
    /// # Errors
    /// The process has gone, or its group is not seen from here.
    pub fn group_of(&self, pid: i32) -> Result<PathBuf> {
        let path = format!("/proc/{pid}/cgroup");
        let text = std::fs::read_to_string(&path).map_err(|e| Error::new(format!("read {path}"), e))?;
        let seen = mount(&self.line).and_then(|mount| seen_at(&mount, own_path(&text, &mount)?));
        seen.ok_or_else(|| Error::new(format!("find the control group of {pid}"), std::io::ErrorKind::NotFound))
    }
}

/// Tells which part of the time processes of real time in the group of this process may run,
/// thousandths. `None`: groups have no such bound (version 2, or a kernel without
/// `CONFIG_RT_GROUP_SCHED`).
pub fn real_time_share(pid: i32) -> Option<u64> {
    let group = Tree::with(Lever::Weigh).ok()??.group_of(pid).ok()?;
    let number = |name: &str| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<i64>().ok();
    let (runtime_us, period_us) = (number("cpu.rt_runtime_us")?, number("cpu.rt_period_us")?);
    // -1: no bound.
    (runtime_us >= 0 && period_us > 0).then(|| (runtime_us * 1000 / period_us).unsigned_abs())
}

fn has(options: &str, lever: Lever) -> bool {
    let controller = if lever == Lever::Freeze { "freezer" } else { "cpu" };
    options.split(',').any(|option| option == controller)
}

/// A group of a [`Tree`] below the group in which its processes were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subgroup {
    dir: PathBuf,
}

impl Subgroup {
    /// Makes the group `name` below `parent`, and gives it the larger share if the tree weighs.
    ///
    /// # Errors
    /// The kernel refuses: there is one, or the caller may not make it.
    pub fn create(tree: &Tree, parent: &Path, name: &str) -> Result<Subgroup> {
        let dir = parent.join(name);
        std::fs::create_dir(&dir).map_err(|e| Error::new(format!("create {}", dir.display()), e))?;
        let own = Subgroup { dir };
        if tree.lever == Lever::Weigh {
            own.set_heavy(true)?;
        }
        Ok(own)
    }

    /// Gives the processes of a group of [`Lever::Weigh`] together a larger share, or that of one
    /// process.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_heavy(&self, heavy: bool) -> Result<()> {
        let shares = if heavy { SHARES } else { USUAL_SHARES };
        super::write(&self.dir.join("cpu.shares"), &shares.to_string())
    }

    /// Names a group that another process made.
    pub fn at(dir: PathBuf) -> Subgroup {
        Subgroup { dir }
    }

    /// Gives the directory of the group.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes a process with all its threads.
    ///
    /// # Errors
    /// The process has gone, or the caller may not move it.
    pub fn take(&self, pid: i32) -> Result<()> {
        super::write(&self.dir.join("cgroup.procs"), &pid.to_string())
    }

    /// Gives a process back to the group in which this one lies.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn give_back(&self, pid: i32) -> Result<()> {
        let parent = self.dir.parent().unwrap_or(&self.dir);
        super::write(&parent.join("cgroup.procs"), &pid.to_string())
    }

    /// Has the processes stand still, or go on. They do no more work when this returns; those that
    /// were about to be given a processor are counted as frozen by the kernel later.
    ///
    /// # Errors
    /// The group has gone, or has no freezer.
    pub fn set_frozen(&self, frozen: bool) -> Result<()> {
        let unified = self.dir.join("cgroup.freeze");
        if unified.exists() {
            return super::write(&unified, if frozen { "1" } else { "0" });
        }
        super::write(&self.dir.join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" })
    }

    /// Lets the processes go on, gives them back, and removes the group. A group that has gone is
    /// as wanted.
    ///
    /// # Errors
    /// The group cannot be removed.
    pub fn dissolve(&self) -> Result<()> {
        // Processes may make others meanwhile.
        const ROUNDS: usize = 20;
        // Only one with a freezer can be frozen.
        let _ = self.set_frozen(false);
        let mut removed = Ok(());
        for _ in 0..ROUNDS {
            for pid in super::processes(&self.dir).into_iter().filter(|&pid| pid > 0) {
                // A process that has gone meanwhile needs nothing.
                let _ = self.give_back(pid);
            }
            removed = std::fs::remove_dir(&self.dir);
            match &removed {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Ok(()) => return Ok(()),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
        removed.map_err(|e| Error::new(format!("remove {}", self.dir.display()), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_stands_still_and_comes_back_to_its_group() {
        for lever in [Lever::Freeze, Lever::Weigh] {
            let Some(tree) = Tree::with(lever).unwrap() else { continue };
            let mut child =
                Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
            let pid = child.id() as i32;
            let parent = tree.group_of(pid).unwrap();
            let name = format!("tern-test-below-{}", std::process::id());
            let Ok(group) = Subgroup::create(&tree, &parent, &name) else { continue };
            group.take(pid).unwrap();
            assert_eq!(tree.group_of(pid).unwrap(), group.dir());
            assert!(real_time_share(pid).is_none_or(|share| share <= 1000));
            if lever == Lever::Freeze {
                group.set_frozen(true).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
                let before = crate::process::cpu_us(pid).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(100));
                assert_eq!(crate::process::cpu_us(pid).unwrap(), before);
            }
            group.dissolve().unwrap();
            group.dissolve().unwrap();
            assert_eq!(tree.group_of(pid).unwrap(), parent);
            let before = crate::process::cpu_us(pid).unwrap();
            while crate::process::cpu_us(pid).unwrap() == before {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn levers_are_found_by_their_controllers() {
        assert!(has("rw,cpu,cpuacct", Lever::Weigh) && !has("rw,cpuacct", Lever::Weigh));
        assert!(has("rw,freezer", Lever::Freeze) && !has("rw,cpuset", Lever::Weigh));
    }
}
