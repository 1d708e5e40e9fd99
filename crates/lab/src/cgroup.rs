//! The cgroups of nodes: limits, and removal. Supports both versions, and machines that have both
//! (man 7 cgroups).
//!
//! The groups of a lab are `tern-lab-LAB/NODE` in every hierarchy that it uses. In version 2, and
//! where processors are shared, the node's processes are in a leaf of their own below `NODE`,
//! beside the groups of rooms ([`LEAF`] tells why).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use os::cgroup::LEAF;
use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};
use crate::options::{LabName, Options};

/// The version 1 controllers in which nodes get groups; the others are left alone.
const USED: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "freezer"];
/// The controllers that version 2 groups pass on.
const PASSED_ON: [&str; 4] = ["cpu", "memory", "pids", "io"];

/// A mounted hierarchy of cgroups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Mount point of the hierarchy.
    pub point: PathBuf,
    /// File system type, `cgroup` or `cgroup2`.
    pub kind: String,
    /// Mount options that identify the hierarchy (version 1: its controllers).
    pub options: String,
}

impl Hierarchy {
    fn has(&self, controller: &str) -> bool {
        match self.kind.as_str() {
            "cgroup2" => fs::read_to_string(self.point.join("cgroup.controllers"))
                .is_ok_and(|text| text.split_whitespace().any(|c| c == controller)),
            _ => self.options.split(',').any(|c| c == controller),
        }
    }
}

/// Lists the hierarchies that a lab uses on this machine.
pub fn hierarchies() -> Result<Vec<Hierarchy>> {
    let text = fs::read_to_string("/proc/self/mountinfo").context(|| "read /proc/self/mountinfo")?;
    Ok(parse(&text))
}

fn parse(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((mount, source)) = line.split_once(" - ") else { continue };
        let (Some(point), mut source) = (mount.split(' ').nth(4), source.split(' ')) else { continue };
        let (Some(kind), Some(all)) = (source.next(), source.nth(1)) else { continue };
        let names = all.split(',').filter(|o| USED.contains(o) || o.starts_with("name="));
        let options = if kind == "cgroup" { names.collect::<Vec<_>>().join(",") } else { String::new() };
        let used = kind == "cgroup2" || (kind == "cgroup" && options.split(',').any(|o| USED.contains(&o)));
        if used && !found.iter().any(|h| h.kind == kind && h.options == options) {
            found.push(Hierarchy { point: point.into(), kind: kind.into(), options });
        }
    }
    found
}

fn group(hierarchy: &Hierarchy, lab: &LabName) -> PathBuf {
    hierarchy.point.join(format!("tern-lab-{lab}"))
}

/// Makes the groups of one node with its limits. Gives the groups of the node's processes.
pub fn make(hierarchies: &[Hierarchy], options: &Options, node: &str) -> Result<Vec<PathBuf>> {
    let mut own = Vec::new();
    for hierarchy in hierarchies {
        let lab = group(hierarchy, &options.name);
        let mut path = lab.join(node);
        if hierarchy.kind == "cgroup2" {
            fs::create_dir_all(&lab).context(|| format!("make cgroup {}", lab.display()))?;
            pass_on(hierarchy, &hierarchy.point);
            pass_on(hierarchy, &lab);
        }
        if hierarchy.kind == "cgroup2" || hierarchy.has("cpu") {
            path.push(LEAF);
        }
        fs::create_dir_all(&path).context(|| format!("make cgroup {}", path.display()))?;
        if options.real_time && hierarchy.kind == "cgroup" && hierarchy.has("cpu") {
            give_real_time(&lab, &path)?;
        }
        own.push(path);
    }
    for (controller, limits) in limits(options) {
        // On a hybrid machine each controller is in one of the two versions.
        let hierarchy = hierarchies.iter().find(|h| h.has(controller));
        let Some(hierarchy) = hierarchy else {
            return Err(io::Error::from(io::ErrorKind::Unsupported))
                .context(|| format!("limit a node: this machine offers no cgroup controller {controller}"));
        };
        let node = group(hierarchy, &options.name).join(node);
        for (file, value) in limits(hierarchy.kind == "cgroup2") {
            let path = node.join(file);
            fs::write(&path, &value).context(|| format!("write {value:?} to {}", path.display()))?;
        }
    }
    Ok(own)
}

/// Gives the group of a node's processes a share of real time (version 1; `CONFIG_RT_GROUP_SCHED`).
/// A group has at most what the group above it has. A kernel without such shares needs none.
fn give_real_time(lab: &Path, group: &Path) -> Result<()> {
    /// Microseconds of each second.
    const SHARE_US: u64 = 50_000;
    let file = |group: &Path| group.join("cpu.rt_runtime_us");
    let Some(has_us) = fs::read_to_string(file(lab)).ok().and_then(|text| text.trim().parse::<u64>().ok()) else {
        return Ok(());
    };
    let node = whole(group);
    for (group, us) in [(lab, has_us + SHARE_US), (node, SHARE_US), (group, SHARE_US)] {
        let file = file(group);
        fs::write(&file, us.to_string()).context(|| format!("write {us} to {}", file.display()))?;
    }
    Ok(())
}

/// Gives the files to write, with their content, for version 1 (false) or 2 (true).
type Limits = Box<dyn Fn(bool) -> Vec<(&'static str, String)>>;

fn limits(options: &Options) -> Vec<(&'static str, Limits)> {
    let mut all: Vec<(&'static str, Limits)> = Vec::new();
    if let Some(cpus) = options.cpus {
        // The period is 10 ms: with 100 ms, a share of 0.1 was 15% short. The kernel's least quota
        // is 1 ms.
        let period_us = if cpus < 0.1 { (1000.0 / cpus) as u64 } else { 10_000 };
        let quota_us = ((period_us as f64 * cpus).round() as u64).max(1000);
        all.push((
            "cpu",
            Box::new(move |v2| match v2 {
                true => vec![("cpu.max", format!("{quota_us} {period_us}"))],
                false => {
                    vec![("cpu.cfs_period_us", period_us.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())]
                }
            }),
        ));
    }
    if let Some(bytes) = options.memory_bytes {
        all.push((
            "memory",
            Box::new(move |v2| vec![(if v2 { "memory.max" } else { "memory.limit_in_bytes" }, bytes.to_string())]),
        ));
    }
    all
}

/// Passes the controllers of a version 2 group on to the groups below, as far as possible. If this
/// is refused and a limit is asked for, writing the limit fails with an error.
fn pass_on(hierarchy: &Hierarchy, group: &Path) {
    for controller in PASSED_ON.iter().filter(|c| hierarchy.has(c)) {
        let _ = fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// Moves this process into the groups.
pub fn join(groups: &[PathBuf]) -> Result<()> {
    groups.iter().try_for_each(|group| {
        let path = group.join("cgroup.procs");
        fs::write(&path, "0").context(|| format!("write to {}", path.display()))
    })
}

/// Gives the node's group, whether its processes are in the group or in a leaf.
pub fn whole(group: &Path) -> &Path {
    group.parent().filter(|_| group.ends_with(LEAF)).unwrap_or(group)
}

/// Lists the processes in a lab's groups by their ids on this machine.
pub fn processes(lab: &LabName) -> Vec<i32> {
    let mut pids = Vec::new();
    for hierarchy in hierarchies().unwrap_or_default() {
        visit(&group(&hierarchy, lab), &mut |directory| pids.extend(listed(directory)));
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Lists the processes of one node, including those of its rooms, whose groups are below the
/// node's.
pub fn members(groups: &[PathBuf]) -> Vec<i32> {
    let Some(first) = groups.first() else { return Vec::new() };
    let mut pids = Vec::new();
    visit(whole(first), &mut |directory| pids.extend(listed(directory)));
    pids
}

/// Lists the ids in one group, without processes that are not visible from here.
fn listed(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|pid| pid.parse::<i32>().ok()).filter(|pid| *pid > 0).collect()
}

/// Removes all groups of a lab. Waits up to `limit` for processes that are about to end.
pub fn remove(lab: &LabName, limit: Duration) -> Result<()> {
    let end = Instant::now() + limit;
    for hierarchy in hierarchies()? {
        let top = group(&hierarchy, lab);
        loop {
            let mut refused = None;
            visit(&top, &mut |directory| {
                if let Err(e) = fs::remove_dir(directory) {
                    refused.get_or_insert(e);
                }
            });
            match refused {
                None => break,
                Some(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                    sleep(Duration::from_millis(5));
                }
                Some(e) => return Err(e).context(|| format!("remove cgroup {}", top.display())),
            }
        }
    }
    Ok(())
}

/// Calls `act` for every group at or below `top`, the deepest first.
fn visit(top: &Path, act: &mut dyn FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(top) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        visit(&entry.path(), act);
    }
    act(top);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_hybrid_and_unified_machines() {
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        let found = parse(hybrid);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].options, "cpu,cpuacct");
        assert_eq!(found[1].kind, "cgroup2");
        let unified = parse("25 22 0:23 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate");
        assert_eq!(unified.len(), 1);
        assert_eq!(unified[0].point, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn limits_in_both_versions() {
        let options =
            Options { cpus: Some(0.25), memory_bytes: Some(64 << 20), ..Options::new("x".parse().unwrap(), 1) };
        let files = |v2| limits(&options).iter().flat_map(|(_, f)| f(v2)).collect::<Vec<_>>();
        assert_eq!(files(true), [("cpu.max", "2500 10000".into()), ("memory.max", "67108864".to_string())]);
        assert_eq!(
            files(false),
            [
                ("cpu.cfs_period_us", "10000".into()),
                ("cpu.cfs_quota_us", "2500".into()),
                ("memory.limit_in_bytes", "67108864".to_string())
            ]
        );
    }
}
