//! Control groups of a job: one below each group in which it has tasks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use os::cgroup::{Lever, Subgroup, Tree};

/// The groups of a job in one hierarchy.
#[derive(Debug)]
pub struct Groups {
    tree: Tree,
    name: String,
    /// By the group in which each lies.
    made: BTreeMap<PathBuf, Subgroup>,
    is_frozen: bool,
}

impl Groups {
    /// Starts without a group. `name` is that of each group, and no other job's. `None`: this
    /// machine has no such hierarchy.
    pub fn new(lever: Lever, name: String) -> Option<Groups> {
        let tree = Tree::with(lever).ok().flatten()?;
        Some(Groups { tree, name, made: BTreeMap::new(), is_frozen: false })
    }

    /// Makes the group for a process if there is none yet.
    ///
    /// # Errors
    /// The process has gone, or the kernel refuses.
    pub fn prepare(&mut self, pid: i32) -> os::Result<()> {
        let parent = self.tree.group_of(pid)?;
        if parent.ends_with(&self.name) || self.made.contains_key(&parent) {
            return Ok(());
        }
        let group = Subgroup::create(&self.tree, &parent, &self.name)?;
        if self.is_frozen {
            group.set_frozen(true)?;
        }
        self.made.insert(parent, group);
        Ok(())
    }

    /// Takes a process into the group that was prepared for it.
    ///
    /// # Errors
    /// The process has gone, or the kernel refuses.
    pub fn take(&self, pid: i32) -> os::Result<()> {
        let parent = self.tree.group_of(pid)?;
        self.made.get(&parent).map_or(Ok(()), |group| group.take(pid))
    }

    /// Gives a process back that a task has made, and that is none.
    ///
    /// # Errors
    /// The process has gone, or the kernel refuses.
    pub fn release(&self, pid: i32) -> os::Result<()> {
        let group = self.tree.group_of(pid)?;
        let own = self.made.values().find(|own| own.dir() == group);
        own.map_or(Ok(()), |own| own.give_back(pid))
    }

    /// Has all processes stand still, or go on. Tries all groups.
    ///
    /// # Errors
    /// A group refuses; the error is that of the last one.
    pub fn set_frozen(&mut self, frozen: bool) -> os::Result<()> {
        self.is_frozen = frozen;
        let mut done = Ok(());
        for group in self.made.values() {
            done = group.set_frozen(frozen).and(done);
        }
        done
    }

    /// Gives the processes a larger share of the processors, or a usual one. Tries all groups.
    pub fn set_heavy(&self, heavy: bool) {
        for group in self.made.values() {
            if let Err(e) = group.set_heavy(heavy) {
                tracing::debug!("cosched: {e}");
            }
        }
    }

    /// Gives the directories of all groups.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.made.values().map(|group| group.dir().to_owned())
    }

    /// Gives all processes back, running, and removes the groups.
    pub fn dissolve(&mut self) {
        for group in std::mem::take(&mut self.made).into_values() {
            if let Err(e) = group.dissolve() {
                tracing::warn!("cosched: {e}");
            }
        }
    }
}
