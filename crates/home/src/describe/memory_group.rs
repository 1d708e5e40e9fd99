//! The processes of this machine that share memory with each other: they leave home together, or
//! not at all.

use crate::describe::descriptor_kind::is_memory;
use checkpoint::BodyError;
use os::areas::{Area, Shown};
use os::process::{self, ProcessFd};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;

/// Processes of which each shares memory with another one.
#[derive(Debug, Default)]
pub struct MemoryGroup {
    /// PIDs of the processes.
    pub members: BTreeSet<i32>,
    /// The memories that any of them has mapped, or open.
    pub memories: HashSet<Shown>,
}

impl MemoryGroup {
    /// Finds the group of process `pid`, which is alone in it if it shares no memory. A process
    /// that ends meanwhile has none.
    pub fn of(pid: i32) -> os::Result<MemoryGroup> {
        let processes = process::all()?;
        let mut memories: HashMap<i32, HashSet<Shown>> = processes.iter().map(|pid| (*pid, mapped(*pid))).collect();
        let all_mapped: HashSet<Shown> = memories.values().flatten().copied().collect();
        for (pid, own) in &mut memories {
            own.extend(opened(*pid, &all_mapped));
        }
        let mut group = MemoryGroup { members: BTreeSet::from([pid]), memories: HashSet::new() };
        group.memories.extend(memories.remove(&pid).unwrap_or_default());
        loop {
            let is_related = |_: &i32, own: &mut HashSet<Shown>| !group.memories.is_disjoint(own);
            let related: Vec<(i32, HashSet<Shown>)> = memories.extract_if(is_related).collect();
            if related.is_empty() {
                return Ok(group);
            }
            for (pid, own) in related {
                group.members.insert(pid);
                group.memories.extend(own);
            }
        }
    }
}

/// Checks that each memory of a group that any of its processes has open is one open file for all
/// of them: they have one offset afterwards.
pub fn check_open_files(members: &[i32], memories: &HashSet<Shown>) -> Result<(), BodyError> {
    let mut found: HashMap<Shown, ProcessFd> = HashMap::new();
    for pid in members.iter().copied() {
        for fd in process::descriptors(pid)?.into_iter().filter(|fd| is_memory(pid, *fd, memories)) {
            let own = ProcessFd { pid, fd };
            let first = *found.entry(checkpoint::memory_shown(pid, &format!("fd/{fd}"))?).or_insert(own);
            if first.pid != pid && !process::one_file(first, own) {
                let why = format!(
                    "descriptor {fd} of process {pid} and one of process {}'s are a file in memory that was opened once more",
                    first.pid
                );
                return Err(BodyError::NotMigratable(why));
            }
        }
    }
    Ok(())
}

/// The memories that a process has mapped.
fn mapped(pid: i32) -> HashSet<Shown> {
    let is_memory = |area: &&Area| {
        area.inode != 0 && (checkpoint::memory_kind(&area.name).is_some() || checkpoint::removed_file(pid, area))
    };
    os::areas::read(pid).unwrap_or_default().iter().filter(is_memory).map(Area::shown).collect()
}

/// The memories that a process has open: memfds, and removed files that are `mapped` by any.
fn opened(pid: i32, mapped: &HashSet<Shown>) -> HashSet<Shown> {
    let memory = |fd: i32| {
        let link = format!("fd/{fd}");
        let name = process::link(pid, &link).ok()?;
        let may_be = name.as_os_str().as_bytes().ends_with(b" (deleted)");
        let shown = may_be.then(|| checkpoint::memory_shown(pid, &link).ok()).flatten()?;
        // Some file systems show files under other device numbers where they are mapped.
        let is_mapped = || mapped.iter().copied().find(|(_, inode)| *inode == shown.1);
        if checkpoint::is_memory(&name) { Some(shown) } else { is_mapped() }
    };
    process::descriptors(pid).unwrap_or_default().into_iter().filter_map(memory).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_shares_no_memory_is_alone() {
        let sleeper = std::process::Command::new("sleep").arg("1000").spawn();
        let mut sleeper = sleeper.unwrap();
        let pid = sleeper.id().cast_signed();
        let group = MemoryGroup::of(pid).unwrap();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!((group.members, group.memories.len()), (BTreeSet::from([pid]), 0));
    }
}
