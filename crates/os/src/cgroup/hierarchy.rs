//! Which controller lives in which hierarchy, and where this process stands in it (cgroups(7)).

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A mounted hierarchy that has controllers of use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Version 2 (the unified one).
    pub unified: bool,
    /// Controllers to be used in it, out of [`super::CONTROLLERS`].
    pub controllers: Vec<String>,
    /// Directory of the group that this process is in; of its parent, if it is in its leaf
    /// ([`super::LEAF`]).
    pub own: PathBuf,
}

/// Gives the hierarchies of this machine, as this process sees them.
///
/// # Errors
/// `/proc/self/mountinfo` or `/proc/self/cgroup` cannot be read.
pub fn detect() -> Result<Vec<Hierarchy>> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| Error::new(format!("read {path}"), e));
    let offered = |dir: &Path| std::fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    Ok(parse(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?, offered))
}

/// One line of mountinfo, as far as it matters.
pub(super) struct Mount<'a> {
    root: &'a str,
    at: &'a str,
    pub(super) unified: bool,
    pub(super) options: &'a str,
}

pub(super) fn mount(line: &str) -> Option<Mount<'_>> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let (root, at) = (front.nth(3)?, front.next()?);
    let mut back = back.split(' ');
    let unified = match back.next()? {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    Some(Mount { root, at, unified, options: back.nth(1)? })
}

/// `offered` says what a unified group's `cgroup.controllers` holds.
fn parse(mounts: &str, own: &str, offered: impl Fn(&Path) -> String) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for mount in mounts.lines().filter_map(mount) {
        let Some(own) = own_path(own, &mount).and_then(|path| below(&mount, path)) else { continue };
        let listed = if mount.unified { offered(&own) } else { mount.options.replace(',', " ") };
        let taken = |name: &str| found.iter().any(|h| h.controllers.iter().any(|c| c == name));
        let has = |name: &&str| listed.split_whitespace().any(|word| word == *name) && !taken(name);
        let controllers: Vec<String> = super::CONTROLLERS.iter().copied().filter(has).map(String::from).collect();
        if !controllers.is_empty() {
            found.push(Hierarchy { unified: mount.unified, controllers, own });
        }
    }
    found
}

/// This process' path in the hierarchy of that mount: `ID:CONTROLLERS:PATH`, without controllers
/// for the unified one.
pub(super) fn own_path<'a>(own: &'a str, mount: &Mount<'_>) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let same = if mount.unified {
            names.is_empty()
        } else {
            !names.is_empty() && names.split(',').all(|name| mount.options.split(',').any(|option| option == name))
        };
        same.then_some(path)
    })
}

/// Tells where a path of the hierarchy, or its parent if it is our leaf, is seen below the mount.
fn below(mount: &Mount<'_>, path: &str) -> Option<PathBuf> {
    let seen = seen_at(mount, path)?;
    if seen.ends_with(super::LEAF) { seen.parent().map(Path::to_owned) } else { Some(seen) }
}

/// Tells where a path of the hierarchy is seen below the mount; `None` if the mount shows another
/// part of it.
pub(super) fn seen_at(mount: &Mount<'_>, path: &str) -> Option<PathBuf> {
    let inside = match mount.root {
        "/" => path,
        root => path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))?,
    };
    let inside = Path::new(inside.trim_start_matches('/'));
    Some(Path::new(mount.at).components().chain(inside.components()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(found: &[Hierarchy]) -> Vec<(bool, String, &str)> {
        found.iter().map(|h| (h.unified, h.controllers.join(","), h.own.to_str().unwrap())).collect()
    }

    #[test]
    fn hybrid_machine_with_the_controllers_in_version_1() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 25 0:29 / /proc rw - proc proc rw";
        let own = "3:cpu,cpuacct:/\n2:memory:/box/7\n0::/\n";
        let found = parse(mounts, own, |_| "hugetlb pids".into());
        let expected = [
            (false, "cpu,cpuacct".into(), "/sys/fs/cgroup/cpu,cpuacct"),
            (false, "memory".into(), "/sys/fs/cgroup/memory/box/7"),
            (true, "pids".into(), "/sys/fs/cgroup/unified"),
        ];
        assert_eq!(summary(&found), expected);
    }

    #[test]
    fn unified_machine_seen_from_a_container() {
        let mounts = "40 25 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate";
        let all = |_: &Path| "cpuset cpu io memory pids".to_string();
        let found = parse(mounts, "0::/docker/ab/job\n", all);
        assert_eq!(summary(&found), [(true, "cpu,memory,pids".into(), "/sys/fs/cgroup/job")]);
        let found = parse(mounts, "0::/docker/ab/job/tern-main\n", |dir| all(dir).replace("pids", ""));
        assert_eq!(summary(&found), [(true, "cpu,memory".into(), "/sys/fs/cgroup/job")]);
        assert_eq!(parse(mounts, "0::/docker/abc\n", all), []);
        assert_eq!(parse(&mounts.replace("/docker/ab", "/../.."), "0::/\n", all), []);
    }

    #[test]
    fn a_controller_is_used_once() {
        let mounts = "1 0 0:1 / /a rw - cgroup c rw,pids\n2 0 0:1 / /b rw - cgroup c rw,pids\nnonsense\n";
        let found = parse(mounts, "1:pids:/x\n", |_| String::new());
        assert_eq!(summary(&found), [(false, "pids".into(), "/a/x")]);
    }
}
